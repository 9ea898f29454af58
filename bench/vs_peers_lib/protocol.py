"""How the figures are taken. This is the protocol; it is fixed here, and no option changes it except what is measured
and in how many launches.

- A launch starts every program for a number of ranks; they sit still, blocked in a read, until it is their turn.
- Cell by cell (a collective and a size), every program allocates buffers, checks every element of one call (of long
  buffers every 61st) and warms up. Then, SAMPLES times a mode, each takes a sample right after the other, the first one
  changing from turn to turn: the mean over `calls_for` calls, of the slowest rank. So the samples of a turn are taken
  within a second. (From LONG bytes on, where memory is dear, each program does all this alone.)
- The state of the machine is probed before and after each sample (state.py). A sample during which it changed is taken
  again, up to ATTEMPTS times; the probes are kept with the sample, and figures.py compares only samples of one state.
- The number of calls depends on the size and the number of ranks alone, but no sample takes much longer than
  SAMPLE_SECONDS: a program that is too slow for it makes fewer calls, at least LEAST_CALLS.
- A peer that took HOPELESS times the best peer's time or longer in a cell, in all modes, in the first launch sits out
  that cell in the other launches: it cannot become the best. (HOPELESS_LONG from LONG_TURN bytes on, where calls are
  steady and dear.) Tutti and the ceiling are always measured.
- Figures are medians over launches. All cells of the run are reported.
"""

import json
import os
import statistics
import subprocess
import time

from . import figures, programs, state
from .rank_group import RankGroup, Lost

COLLECTIVES = (*figures.targets.FIVE, "reduce", "gather", "scatter", "barrier")
MODES = ("back", "used", "apart")
SAMPLES, LAUNCHES, ATTEMPTS = 3, 5, 3
SAMPLE_SECONDS, LEAST_CALLS, MOST_CALLS = 0.06, 3, 20000
LONG = 64 << 20  # from here on one sample of two calls
HOPELESS = 3.0
LONG_TURN, HOPELESS_LONG = 16 << 20, 1.5
SPARE_MEMORY = 2 << 30


def fitted(size, ranks):
    """The size that is measured for it: at least one float a block, and whole blocks."""
    return max(size, 4 * ranks) // (4 * ranks) * (4 * ranks)


def cells_for(collectives, sizes, ranks):
    """(collective, bytes), sizes outermost; a barrier moves nothing."""
    cells = []
    for size in dict.fromkeys(fitted(size, ranks) for size in sorted(sizes)):
        cells += [(collective, size) for collective in collectives if collective != "barrier"]
    return cells + ([("barrier", 0)] if "barrier" in collectives else [])


def modes_for(collective, modes, ranks, cores):
    """As used is for ranks with cores of their own; apart is for broadcast, whose root may run ahead."""
    makes_sense = {"back": True, "used": ranks <= cores and collective != "barrier",
                   "apart": ranks <= cores and collective == "broadcast"}
    return [mode for mode in MODES if mode in modes and makes_sense[mode]]


def calls_for(size, ranks, cores, seconds_a_call):
    """Calls in one sample."""
    if size >= LONG:
        return 2
    calls = max(2, min(MOST_CALLS, (160 << 20) // max(size, 8192)))
    calls = max(LEAST_CALLS, calls * cores // max(ranks, cores))
    return max(LEAST_CALLS, min(calls, int(SAMPLE_SECONDS / max(seconds_a_call, 1e-9))))


def free_memory():
    with open("/proc/meminfo", encoding="ascii") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


class Run:
    """One run: launches × ranks × cells × programs. `rows` are figures.COLUMNS; `notes` what went otherwise."""

    def __init__(self, found, options, say, progress):
        self.found, self.options, self.say, self.progress = found, options, say, progress
        self.cores = len(os.sched_getaffinity(0))
        self.rows, self.notes, self.machine = [], [], []
        self.out = {}  # (ranks, collective, bytes) → programs that sit out
        self.retaken = 0  # samples, since the machine's state changed
        self.probe = lambda: None  # microseconds; None: nothing to probe with
        self.weights = sum(self._weight(size, ranks) for ranks in options.ranks
                           for _, size in self._cells(ranks)) * options.launches
        self.done, self.began = 0.0, time.monotonic()

    @staticmethod
    def _weight(size, ranks):
        """How long a cell takes, in an arbitrary unit, for telling the time left."""
        return 1 + size * ranks / (24 << 20)

    def _cells(self, ranks):
        return [(collective, size) for collective, size in
                cells_for(self.options.collectives, self.options.sizes, ranks)
                if self._modes(ranks, collective, size)]

    def _modes(self, ranks, collective, size):
        modes = modes_for(collective, self.options.modes, ranks, self.cores)
        if self.options.cells is None:
            return modes
        return [mode for mode in modes if (ranks, mode, collective, size) in self.options.cells]

    def measure(self, ceilings):
        """Everything. `ceilings` is the program that measures the machine."""
        for launch in range(1, self.options.launches + 1):
            self.progress(f"launch {launch}: the machine")
            self.machine.append(self._machine(ceilings))
            for ranks in self.options.ranks:
                if self._cells(ranks):
                    self._launch(launch, ranks)
        self.progress("")
        if self.retaken:
            self._note(f"{self.retaken} samples were taken again, since the machine's state changed meanwhile")

    def _machine(self, ceilings):
        done = subprocess.run([ceilings, "machine", *(["--quick"] if self.options.quick else [])], capture_output=True,
                              text=True, check=True)
        return json.loads(done.stdout)

    def _launch(self, launch, ranks):
        groups, probe = {}, None
        try:
            probe = self._start_probe()
            for program in self.found:
                if ranks > self.cores and not program.crowds:
                    continue
                self._tell(launch, ranks, f"starting {program.name}")
                try:
                    groups[program.name] = RankGroup(program, ranks, self.cores)
                except Lost as error:
                    self._note(str(error))
            for index, (collective, size) in enumerate(self._cells(ranks)):
                self._cell(launch, ranks, collective, size, groups, index)
                self.done += self._weight(size, ranks)
        finally:
            for group in groups.values():
                group.stop()
            if probe is not None:
                probe.stop()

    def _start_probe(self):
        ceiling = next((program for program in self.found if program.name == "ceiling"), None)
        if ceiling is None or self.cores < 2:
            self._note("The machine's state was not probed: that takes the program \"ceiling\" and two cores")
            return None
        self.probe = probe = state.Probe(ceiling, self.cores)
        return probe

    def _cell(self, launch, ranks, collective, size, groups, index):
        out = self.out.get((ranks, collective, size), set())
        order = [name for name, group in groups.items() if name not in out and size >= group.program.smallest and
                 collective not in group.program.lacks]
        together = 1 if size >= LONG else max(1, len(order))
        if 2 * ranks * size * together + SPARE_MEMORY > free_memory():
            together = 1
        if 2 * ranks * size + SPARE_MEMORY > free_memory():
            self._note(f"{collective} of {size} bytes with {ranks} ranks was left out: not enough free memory")
            return
        turn = (index + launch) % len(order) if order else 0
        order = order[turn:] + order[:turn]
        took = {}
        for begin in range(0, len(order), together):
            took.update(self._together(launch, collective, size,
                                       {name: groups[name] for name in order[begin:begin + together]}, groups))
        if launch == 1:
            self.out[ranks, collective, size] = self._hopeless(took, HOPELESS_LONG if size >= LONG_TURN else HOPELESS)

    def _hopeless(self, took, factor):
        """took: program → mode → microseconds."""
        groups = {program.name: program.group for program in self.found}
        peers = {name: modes for name, modes in took.items() if groups[name] in (programs.DEBIAN, programs.OTHERS)}
        kinds = {mode for modes in peers.values() for mode in modes}
        beaten = [figures.hopeless({name: modes[mode] for name, modes in peers.items()}, factor) for mode in kinds]
        return set.intersection(*beaten) if beaten else set()

    def _together(self, launch, collective, size, playing, groups):
        """These programs in one cell: program → mode → median of the samples, in microseconds. One that fails leaves
        `playing` and `groups`."""
        took = {name: {} for name in playing}

        def each(visit, names):
            for name in names:
                if name not in playing:
                    continue
                self._tell(launch, playing[name].ranks, f"{collective} {size} B: {name}")
                try:
                    visit(name, playing[name])
                except Lost as error:
                    self._note(str(error))
                    del took[name], playing[name]
                    groups.pop(name).stop()

        names = list(playing)
        each(lambda name, group: self._open(group, collective, size), names)
        ranks = next((group.ranks for group in playing.values()), 0)
        for mode in self._modes(ranks, collective, size):
            for name, row in self._samples(launch, mode, collective, size, names, playing, each).items():
                self.rows.append(row)
                took[name][mode] = statistics.median(row[figures.COLUMNS.index("us")])
        each(lambda name, group: group.ask("close"), names)
        return took

    @staticmethod
    def _open(group, collective, size):
        wrong = sum(int(words[1]) for words in group.ask(f"open {collective} {size}"))
        if wrong:
            raise Lost(f"{group.program.name}, {group.ranks} ranks: {collective} of {size} bytes: {wrong} elements are "
                       "wrong")

    def _samples(self, launch, mode, collective, size, names, playing, each):
        """Program → its row of one mode."""
        rows, alone = {}, len(names) == 1

        def begin(name, group):
            seconds = self._warm_up(group, mode) if size < LONG or mode == "back" else 0.0
            calls = calls_for(size, group.ranks, self.cores, seconds)
            rows[name] = [launch, group.ranks, mode, collective, size, name, calls, [], []]

        def sample(name, group):
            calls, samples, probes = rows[name][6:]
            if not alone:
                self._time(group, mode, max(1, calls // 10))  # others have used the caches
            us, around = self._sample(group, mode, calls)
            samples.append(us)
            if around:
                probes.append(around)

        each(begin, names)
        for turn in range(1 if size >= LONG else SAMPLES):
            first = turn % len(names)
            each(sample, names[first:] + names[:first])
        return {name: row for name, row in rows.items() if name in playing}

    def _warm_up(self, group, mode):
        """Seconds of one call with all that surrounds it in this mode."""
        seconds = 0.0
        for calls in (1, 3, 20, 200):
            answers = self._time(group, mode, calls)
            seconds = max(whole + touching for whole, touching in answers) / 1e6
            if seconds * 7 * calls > SAMPLE_SECONDS / 2:
                break
        return seconds

    def _sample(self, group, mode, calls):
        """Microseconds a call, and what was probed before and after."""
        for attempt in range(ATTEMPTS):
            before = self.probe()
            us = float(f"{figures.slowest(self._time(group, mode, calls)):.4g}")
            around = [probed for probed in (before, self.probe()) if probed is not None]
            if state.alike(around):
                break
            self.retaken += attempt + 1 < ATTEMPTS
        return us, around

    @staticmethod
    def _time(group, mode, calls):
        return [(float(words[1]), float(words[2])) for words in group.ask(f"time {mode} {calls}")]

    def _note(self, text):
        if text not in self.notes:
            self.notes.append(text)
            self.say(text)

    def share(self):
        """How much of the work is done, from 0 to 1."""
        return self.done / self.weights if self.weights else 1

    def _tell(self, launch, ranks, what):
        share = self.share()
        elapsed = time.monotonic() - self.began
        left = f"{elapsed * (1 - share) / share / 60:.0f} min left" if share > 0.02 else "time left not known yet"
        self.progress(f"launch {launch} of {self.options.launches}, {ranks} ranks, {100 * share:.0f} %, {left}: {what}")
