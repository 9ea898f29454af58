"""How the figures are taken. This is the protocol; it is fixed here, and no option changes it except what is measured
and in how many launches.

- A launch starts every program for a number of ranks; they sit still, blocked in a read, until it is their turn.
- Cell by cell (a collective and a size), every program is measured right after the other, the first one changing from
  cell to cell. So all figures of a cell are taken within seconds of each other.
- In its turn a program allocates buffers, checks every element of one call (of long buffers every 61st), warms up, and
  takes SAMPLES samples a mode, each the mean over `calls_for` calls, of the slowest rank.
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

from . import figures, programs
from .rank_group import RankGroup, Lost

COLLECTIVES = (*figures.targets.FIVE, "reduce", "gather", "scatter", "barrier")
MODES = ("back", "used", "apart")
SAMPLES, LAUNCHES = 3, 5
SAMPLE_SECONDS, LEAST_CALLS, MOST_CALLS = 0.06, 3, 20000
LONG = 64 << 20  # from here on one sample of two calls
HOPELESS = 3.0
LONG_TURN, HOPELESS_LONG = 16 << 20, 1.5
SPARE_MEMORY = 2 << 30


def cells_for(collectives, sizes, ranks):
    """(collective, bytes), sizes outermost: at least one float a block; a barrier moves nothing."""
    cells = []
    for size in dict.fromkeys(max(size, 4 * ranks) // (4 * ranks) * (4 * ranks) for size in sorted(sizes)):
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
        self.weights = sum(self._weight(size, ranks) for ranks in options.ranks
                           for _, size in cells_for(options.collectives, options.sizes, ranks)) * options.launches
        self.done, self.began = 0.0, time.monotonic()

    @staticmethod
    def _weight(size, ranks):
        """How long a cell takes, in an arbitrary unit, for telling the time left."""
        return 1 + size * ranks / (24 << 20)

    def measure(self, ceilings):
        """Everything. `ceilings` is the program that measures the machine."""
        for launch in range(1, self.options.launches + 1):
            self.progress(f"launch {launch}: the machine")
            self.machine.append(self._machine(ceilings))
            for ranks in self.options.ranks:
                self._launch(launch, ranks)
        self.progress("")

    def _machine(self, ceilings):
        done = subprocess.run([ceilings, "machine", *(["--quick"] if self.options.quick else [])], capture_output=True,
                              text=True, check=True)
        return json.loads(done.stdout)

    def _launch(self, launch, ranks):
        groups = {}
        try:
            for program in self.found:
                if ranks > self.cores and not program.crowds:
                    continue
                self._tell(launch, ranks, f"starting {program.name}")
                try:
                    groups[program.name] = RankGroup(program, ranks, self.cores)
                except Lost as error:
                    self._note(str(error))
            for index, (collective, size) in enumerate(cells_for(self.options.collectives, self.options.sizes, ranks)):
                self._cell(launch, ranks, collective, size, groups, index)
                self.done += self._weight(size, ranks)
        finally:
            for group in groups.values():
                group.stop()

    def _cell(self, launch, ranks, collective, size, groups, index):
        if 2 * ranks * size + SPARE_MEMORY > free_memory():
            self._note(f"{collective} of {size} bytes with {ranks} ranks was left out: not enough free memory")
            return
        out = self.out.get((ranks, collective, size), set())
        order = [name for name, group in groups.items() if name not in out and size >= group.program.smallest]
        turn = (index + launch) % len(order) if order else 0
        took = {}
        for name in order[turn:] + order[:turn]:
            self._tell(launch, ranks, f"{collective} {size} B: {name}")
            try:
                took[name] = self._turn(launch, groups[name], collective, size)
            except Lost as error:
                self._note(str(error))
                groups.pop(name).stop()
        if launch == 1:
            self.out[ranks, collective, size] = self._hopeless(took, HOPELESS_LONG if size >= LONG_TURN else HOPELESS)

    def _hopeless(self, took, factor):
        """took: program → mode → microseconds."""
        groups = {program.name: program.group for program in self.found}
        peers = {name: modes for name, modes in took.items() if groups[name] in (programs.DEBIAN, programs.OTHERS)}
        kinds = {mode for modes in peers.values() for mode in modes}
        beaten = [figures.hopeless({name: modes[mode] for name, modes in peers.items()}, factor) for mode in kinds]
        return set.intersection(*beaten) if beaten else set()

    def _turn(self, launch, group, collective, size):
        """One program in one cell: mode → median of the samples, in microseconds."""
        wrong = sum(int(words[1]) for words in group.ask(f"open {collective} {size}"))
        if wrong:
            raise Lost(f"{group.program.name}, {group.ranks} ranks: {collective} of {size} bytes: {wrong} elements are "
                       "wrong")
        medians = {}
        for mode in modes_for(collective, self.options.modes, group.ranks, self.cores):
            seconds = self._warm_up(group, mode) if size < LONG or not medians else 0.0
            calls = calls_for(size, group.ranks, self.cores, seconds)
            samples = [self._sample(group, mode, calls) for _ in range(1 if size >= LONG else SAMPLES)]
            self.rows.append([launch, group.ranks, mode, collective, size, group.program.name, calls,
                              [float(f"{us:.4g}") for us in samples]])
            medians[mode] = statistics.median(samples)
        group.ask("close")
        return medians

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
        return figures.slowest(self._time(group, mode, calls))

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
