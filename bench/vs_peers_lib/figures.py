"""From samples to figures: medians over launches, the best peer, ratios, targets. Pure arithmetic.

A sample is the mean over calls of one program in one cell, that of the slowest rank. A program's figure in a launch is
the median of its samples, and in a cell the median over launches, with the least and the greatest beside it.

A ratio of two programs is the median over pairs: samples that were taken in the same turn, in one state of the machine
(state.py). Beside it stand the quartiles of the pairs; a cell is decided if both lie on one side of what is aimed at.
Of figures that were kept without states (before 2026-11-28) it is the ratio of the medians, with the least and greatest
ratio of the launches.
"""

import collections
import dataclasses
import statistics

from . import state, targets

COLUMNS = ("launch", "ranks", "mode", "collective", "bytes", "program", "calls", "us", "probes")
FEWEST_PAIRS = 5  # that decide a cell


def slowest(answers):
    """Microseconds of one sample, from each rank's (whole, touching): the touching is subtracted."""
    return max(whole - touching for whole, touching in answers)


@dataclasses.dataclass(frozen=True)
class Figure:
    """Microseconds a call of one program in one cell."""
    program: str
    us: float
    least: float
    most: float
    by_launch: dict
    samples: dict  # (launch, turn) → (microseconds, probes); empty where no probes were kept

    @staticmethod
    def of(program, by_launch, samples=None):
        values = list(by_launch.values())
        return Figure(program, statistics.median(values), min(values), max(values), dict(by_launch), samples or {})


@dataclasses.dataclass(frozen=True)
class Ratio:
    """The median of pairs and their quartiles, as said above. pairs: their number, or None without states."""
    value: float
    least: float
    most: float
    pairs: int | None = None

    def decides(self, aim):
        """Is it beyond doubt on which side of the aim it is?"""
        return self.pairs is None or (self.pairs >= FEWEST_PAIRS and not self.least <= aim <= self.most)

    @staticmethod
    def of(above, below):
        """None where there is nothing to divide by, one of the two is missing, or no two samples are of one state."""
        if above is None or below is None or below.us <= 0:
            return None
        if above.samples and below.samples:
            return Ratio._of_pairs(above.samples, below.samples)
        both = [above.by_launch[launch] / below.by_launch[launch] for launch in above.by_launch
                if below.by_launch.get(launch, 0) > 0]
        value = above.us / below.us
        return Ratio(value, min(both, default=value), max(both, default=value))

    @staticmethod
    def _of_pairs(above, below):
        ratios = [above[turn][0] / below[turn][0] for turn in above if turn in below and below[turn][0] > 0 and
                  state.alike([*above[turn][1], *below[turn][1]])]
        if not ratios:
            return None
        quartiles = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
        return Ratio(statistics.median(ratios), quartiles[0], quartiles[2], len(ratios))


class Cell:
    """All programs' figures for one collective, size, number of ranks and mode."""

    def __init__(self, ranks, mode, collective, size, figures, groups):
        self.ranks, self.mode, self.collective, self.size = ranks, mode, collective, size
        self.figures = figures  # program → Figure
        self.groups = groups  # program → group

    def best(self, *groups):
        """The fastest program of these groups, or None."""
        of_them = [figure for name, figure in self.figures.items() if self.groups.get(name) in groups]
        return min(of_them, key=lambda figure: figure.us, default=None)

    def hardest(self, *groups):
        """(ratio, program): the program of these groups that Tutti is furthest from beating, or (None, None)."""
        ratios = [(self.ratio_to(figure), name) for name, figure in self.figures.items()
                  if self.groups.get(name) in groups]
        return max((one for one in ratios if one[0] is not None), key=lambda one: one[0].value, default=(None, None))

    @property
    def ceiling(self):
        return self.best("ceiling")

    def ratio_to(self, below, program="tutti"):
        return Ratio.of(self.figures.get(program), below)

    def target(self, cores):
        return targets.to_peers(self.ranks, self.mode, self.collective, self.size, cores)

    def verdict(self, cores):
        """True or False where there is a target and both figures; else None."""
        ratio, target = self.ratio_to(self.best("debian")), self.target(cores)
        return None if ratio is None or target is None else ratio.value <= target

    def out_of_reach(self, cores):
        """Does the ceiling itself take longer than the target allows?"""
        ratio, target = Ratio.of(self.ceiling, self.best("debian")), self.target(cores)
        return ratio is not None and target is not None and ratio.value > target

    def mapped_verdict(self, program, cores):
        ratio = self.ratio_to(self.ceiling, program)
        target = None if self.size == 0 else targets.to_ceiling(self.ranks, self.mode, self.size, cores)
        return None if ratio is None or target is None else ratio.value <= target


def cells_of(rows, groups):
    """Rows (as COLUMNS) to cells in the order in which they first come, by (ranks, mode, collective, bytes)."""
    gathered = {}
    samples = collections.defaultdict(dict)
    for launch, ranks, mode, collective, size, program, _calls, us, *probes in rows:
        key = (ranks, mode, collective, size)
        gathered.setdefault(key, collections.defaultdict(dict))[program][launch] = statistics.median(us)
        for turn, around in enumerate(probes[0] if probes else ()):
            samples[key, program][launch, turn] = (us[turn], around)
    return {key: Cell(*key, {name: Figure.of(name, launches, samples[key, name])
                             for name, launches in by_program.items()}, groups)
            for key, by_program in gathered.items()}


def ahead(cell):
    """Is Tutti no slower than any peer? True or False if that is decided, "" if not; None if there is no peer."""
    ratios = [cell.ratio_to(figure) for name, figure in cell.figures.items()
              if cell.groups.get(name) in ("debian", "others")]
    if not ratios or "tutti" not in cell.figures:
        return None
    if any(ratio is not None and ratio.value > 1 and ratio.decides(1) for ratio in ratios):
        return False
    doubtful = any(ratio is None or (ratio.pairs is not None and ratio.least <= 1 <= ratio.most) for ratio in ratios)
    return "" if doubtful else all(ratio.value <= 1 for ratio in ratios)


def hopeless(times, factor=3.0):
    """Programs that took more than `factor` times the best one's time. times: program → microseconds."""
    best = min((us for us in times.values() if us > 0), default=None)
    return {program for program, us in times.items() if best is not None and us > factor * best}


def tally(cells, cores):
    """(met, missed): the cells with a target, plain memory against Debian's best."""
    judged = [(cell, cell.verdict(cores)) for cell in cells.values()]
    return [cell for cell, met in judged if met is True], [cell for cell, met in judged if met is False]


def mapped_tally(cells, cores, programs=("tutti-mapped", "tutti-window", "tutti-threads")):
    """(met, missed) as (cell, program): memory that can be mapped against the ceiling."""
    judged = [((cell, name), cell.mapped_verdict(name, cores)) for cell in cells.values() for name in programs]
    return [one for one, met in judged if met is True], [one for one, met in judged if met is False]
