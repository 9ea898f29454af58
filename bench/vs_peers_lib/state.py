"""The state of the machine: how fast two of its cores exchange bytes now.

Hosts move virtual machines between cores by themselves, with and without a common cache, and clocks change: any program
takes several times as long in one state as in another. So a short exchange by hand is timed before and after each
sample. Samples during which the state changed are taken again; only samples of one state are compared.
"""

from .rank_group import RankGroup

ONE_STATE = 1.25  # two probes of one state differ by no more than this factor
BYTES, CALLS, TURNS = 64 << 10, 60, 3


def alike(probes):
    """Are these probes, in microseconds, of one state? True if there are none."""
    return not probes or max(probes) <= ONE_STATE * min(probes)


class Probe:
    """An all-gather of 64 KiB by hand between two processes, of inputs that are written before it, so that all lines
    cross between the cores: some milliseconds. `ceiling`: the program that makes it."""

    def __init__(self, ceiling, cores):
        self.group = RankGroup(ceiling, 2, cores)
        self.group.ask(f"open all_gather {BYTES}")

    def __call__(self):
        """Microseconds of an exchange and of writing its inputs: the least of a few turns."""
        times = [max(float(words[1]) for words in self.group.ask(f"time used {CALLS}")) for _ in range(TURNS)]
        return float(f"{min(times):.4g}")

    def stop(self):
        self.group.stop()
