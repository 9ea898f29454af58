"""What the tests of bench/vs_peers share. The source folder, and the build's where it is needed, are the arguments."""

import pathlib
import sys
import unittest

SOURCE = pathlib.Path(sys.argv[1])
BUILD = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
sys.path.insert(0, str(SOURCE / "bench"))

GROUPS = {"tutti": "tutti", "tutti-mapped": "tutti", "tutti-threads": "tutti", "openmpi4": "debian", "mpich4": "debian",
          "gloo": "others", "ceiling": "ceiling", "ceiling-streaming": "ceiling"}


def rows_of(program, by_launch, key=(2, "back", "all_reduce", 8)):
    """Raw rows of one cell: launch after launch, the samples of each."""
    ranks, mode, collective, size = key
    return [[launch, ranks, mode, collective, size, program, 100, us] for launch, us in enumerate(by_launch, 1)]


def main():
    unittest.main(argv=sys.argv[:1], verbosity=2)
