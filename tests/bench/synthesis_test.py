"""bench/synthesis: cells are kept, limited in time and memory, and told."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support import SOURCE, main

# Stands in for tutti: counts its runs, and does as the collective and its own variable say.
PROGRAM = """#!/usr/bin/env python3
import json, os, sys, time
words = sys.argv[1:]
with open(os.environ["RUNS"], "a") as runs:
    runs.write(words[2] + "\\n")
if words[2] == os.environ.get("SLOW"):
    time.sleep(1000)
if words[2] == os.environ.get("LARGE"):
    try:
        bytearray(4 << 30)
    except MemoryError:
        sys.exit("there is no memory")
rows = [{"algorithm": name, "made": name == "synth", "of_bound": of} for name, of in (("synth", 0.97), ("ring", 0.5))]
with open(words[words.index("--json") + 1], "w") as file:
    json.dump({"algorithms": rows, "bound": {"exact": True}}, file)
"""
ONLY = "nccl-pcie-2-sockets.xml 1"


class Synthesis(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program = self.folder / "tutti"
        self.program.write_text(PROGRAM)
        self.program.chmod(0o755)

    def bench(self, *options, **variables):
        runs = self.folder / "runs"
        runs.unlink(missing_ok=True)
        done = subprocess.run([sys.executable, "-B", SOURCE / "bench/synthesis", "--tutti", self.program, "--only", ONLY, "--state",
                               self.folder / "state", *options], capture_output=True, text=True, timeout=60,
                              env={**os.environ, **variables, "RUNS": str(runs)})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done, runs.read_text().split() if runs.exists() else []

    def test_goes_on_where_it_was(self):
        done, runs = self.bench()
        self.assertEqual(runs, ["all_gather", "reduce_scatter", "all_reduce", "broadcast", "reduce"])
        self.assertIn("| 97.0 / 50 | 97.0 / 50 |", done.stdout)
        self.assertRegex(done.stderr, r"(?m)^# 3 of 5 cells, about \d+ min left; nccl-pcie-2-sockets.xml, 1 hosts, broadcast .*: running$")
        again, runs = self.bench()
        self.assertEqual((runs, again.stdout), ([], done.stdout))
        state = self.folder / "state"
        lines = state.read_text().splitlines()
        state.write_text("\n".join(lines[:3]) + "\n" + lines[3][:20])  # interrupted while it wrote
        self.assertEqual(self.bench()[1], ["broadcast", "reduce"])
        self.assertEqual(len(self.bench("--fresh")[1]), 5)
        self.program.write_text(PROGRAM + "\n")  # another program
        self.assertEqual(len(self.bench()[1]), 5)

    def test_a_cell_has_limits(self):
        done, _ = self.bench("--seconds", "2", "--memory", "1", SLOW="reduce_scatter", LARGE="broadcast")
        self.assertIn("reduce_scatter: it takes more than 2 s", done.stdout)
        self.assertIn("broadcast: there is no memory", done.stdout)
        self.assertEqual(self.bench("--seconds", "2", "--memory", "1")[1], [], "they are known")
        done, runs = self.bench("--seconds", "3", "--memory", "1")
        self.assertEqual(runs, ["reduce_scatter", "broadcast"], "more time: they are tried again")
        self.assertNotIn("it takes more than", done.stdout)


if __name__ == "__main__":
    main()
