"""From samples to figures: medians over launches, the best peer, ratios, targets. Pure arithmetic.

A sample is what one program took in one launch for one cell: the list of its means over calls, each that of the slowest
rank. Its figure is their median; a program's figure in a cell is the median over launches, with the least and the
greatest beside it.
"""

import collections
import dataclasses
import statistics

from . import targets

COLUMNS = ("launch", "ranks", "mode", "collective", "bytes", "program", "calls", "us")


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

    @staticmethod
    def of(program, by_launch):
        values = list(by_launch.values())
        return Figure(program, statistics.median(values), min(values), max(values), dict(by_launch))


@dataclasses.dataclass(frozen=True)
class Ratio:
    """Of two programs' medians, and the least and greatest of the launches that both took part in."""
    value: float
    least: float
    most: float

    @staticmethod
    def of(above, below):
        """None where there is nothing to divide by, or one of the two is missing."""
        if above is None or below is None or below.us <= 0:
            return None
        both = [above.by_launch[launch] / below.by_launch[launch] for launch in above.by_launch
                if below.by_launch.get(launch, 0) > 0]
        value = above.us / below.us
        return Ratio(value, min(both, default=value), max(both, default=value))


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
    for launch, ranks, mode, collective, size, program, _calls, us in rows:
        cell = gathered.setdefault((ranks, mode, collective, size), collections.defaultdict(dict))
        cell[program][launch] = statistics.median(us)
    return {key: Cell(*key, {name: Figure.of(name, launches) for name, launches in by_program.items()}, groups)
            for key, by_program in gathered.items()}


def hopeless(times, factor=3.0):
    """Programs that took more than `factor` times the best one's time. times: program → microseconds."""
    best = min((us for us in times.values() if us > 0), default=None)
    return {program for program, us in times.items() if best is not None and us > factor * best}


def tally(cells, cores):
    """(met, missed): the cells with a target, plain memory against Debian's best."""
    judged = [(cell, cell.verdict(cores)) for cell in cells.values()]
    return [cell for cell, met in judged if met is True], [cell for cell, met in judged if met is False]


def mapped_tally(cells, cores, programs=("tutti-mapped", "tutti-threads")):
    """(met, missed) as (cell, program): memory that can be mapped against the ceiling."""
    judged = [((cell, name), cell.mapped_verdict(name, cores)) for cell in cells.values() for name in programs]
    return [one for one, met in judged if met is True], [one for one, met in judged if met is False]
