#!/usr/bin/env python3
"""Plans made for a machine, in calls on memory of GPUs, on the stand-in: synth_test.py TUTTI"""

import glob
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

TUTTI = sys.argv.pop(1)
GPUS = ("--device", "cuda")
MOST = 200  # seconds: to a sanitizer, making plans takes long
FORCED = {"TUTTI_ALGO": "all_gather:synth"}


class GpuSynth(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = folder.name + "/tutti"
        self.env = {**os.environ, "XDG_CACHE_HOME": folder.name, "TUTTI_CALIBRATION": "0"}
        self.make(1)  # those of calls on memory of the host

    def tutti(self, *arguments, **env):
        return subprocess.run([TUTTI, *arguments], capture_output=True, text=True, timeout=280, env={**self.env, **env})

    def kept(self):
        return glob.glob(self.cache + "/synth-*.json")

    def make(self, count, *on):
        """Jobs, until so many files are kept: each ends the making of plans that are not made when it ends."""
        iterations, end = 100, time.monotonic() + MOST
        while len(self.kept()) < count and time.monotonic() < end:
            self.perf(*on, iterations=iterations, TUTTI_SYNTH="auto")
            iterations = min(4 * iterations, 400_000)
        self.assertEqual(len(self.kept()), count)

    def perf(self, *on, iterations=1, **env):
        """The algorithm that ran, and what was logged."""
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            done = self.tutti("perf", "all_gather", *on, "--np", "2", "-b", "1K", "-e", "1K", "-n", str(iterations), "-w", "0", "-c", "1",
                              "--json", file.name, **env)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.load(file)["results"][0]["algorithm"], done.stderr

    def test_a_demand_without_plans_is_said(self):
        algorithm, said = self.perf(*GPUS, **FORCED)
        self.assertFalse(algorithm.startswith("synth"), algorithm)
        self.assertEqual(said.count("TUTTI_ALGO=all_gather:synth is not used by calls on memory of GPUs: no plan is kept for these 2 "
                                    "ranks on the GPUs of this topology"), 1, said)

    def test_plans_that_were_made_run(self):
        self.make(2, *GPUS)
        algorithm, said = self.perf(*GPUS, **FORCED)
        self.assertRegex(algorithm, "^synth@")
        self.assertNotIn("is not used", said)


if __name__ == "__main__":
    unittest.main()
