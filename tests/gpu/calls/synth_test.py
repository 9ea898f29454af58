#!/usr/bin/env python3
"""Plans made for a machine, in calls on memory of GPUs, on the stand-in: synth_test.py TUTTI"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

TUTTI = sys.argv.pop(1)
FORCED = {"TUTTI_ALGO": "all_gather:synth"}


class GpuSynth(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = folder.name + "/tutti"
        self.env = {**os.environ, "XDG_CACHE_HOME": folder.name, "TUTTI_CALIBRATION": "0"}
        done = self.tutti("tune", "--links", "--synth", "-n", "2")  # those of calls on memory of the host
        self.assertEqual(done.returncode, 0, done.stderr)

    def tutti(self, *arguments, **env):
        return subprocess.run([TUTTI, *arguments], capture_output=True, text=True, timeout=280, env={**self.env, **env})

    def kept(self):
        return [name for name in os.listdir(self.cache) if name.startswith("synth-")]

    def perf(self, iterations=1, **env):
        """The algorithm that ran, and what was logged."""
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            done = self.tutti("perf", "all_gather", "--device", "cuda", "--np", "2", "-b", "64K", "-e", "64K", "-n", str(iterations),
                              "-w", "0", "-c", "1", "--json", file.name, **env)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.load(file)["results"][0]["algorithm"], done.stderr

    def test_a_demand_without_plans_is_said(self):
        algorithm, said = self.perf(**FORCED)
        self.assertFalse(algorithm.startswith("synth"), algorithm)
        self.assertEqual(said.count("TUTTI_ALGO=all_gather:synth is not used by calls on memory of GPUs: no plan is kept for these 2 "
                                    "ranks on the GPUs of this topology"), 1, said)

    def test_plans_that_were_made_run(self):
        self.assertEqual(len(self.kept()), 1)
        iterations = 1  # a job must be longer than the making of its plans
        while len(self.kept()) < 2 and iterations < 2000:
            self.perf(iterations, TUTTI_SYNTH="auto")
            iterations *= 4
        self.assertEqual(len(self.kept()), 2)
        algorithm, said = self.perf(**FORCED)
        self.assertRegex(algorithm, "^synth@")
        self.assertNotIn("is not used", said)


if __name__ == "__main__":
    unittest.main()
