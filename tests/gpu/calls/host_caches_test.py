#!/usr/bin/env python3
"""Groups of cores that share a cache say nothing of the GPUs of these ranks: host_caches_test.py TUTTI"""

import os
import re
import subprocess
import sys
import unittest

TUTTI = sys.argv.pop(1)
CORES = os.cpu_count()


class HostCaches(unittest.TestCase):
    @unittest.skipUnless(CORES % 2 == 0 and len(os.sched_getaffinity(0)) == CORES,
                         "an odd number of processors, or not all may be used: a description of several caches must be of all")
    def test_say_nothing_of_gpus(self):
        each = 1 if CORES == 2 else 2  # cores of a cache
        env = {"HWLOC_SYNTHETIC": f"package:1 l3:{CORES // each} core:{each} pu:1", "TUTTI_LOG": "info", "TUTTI_EXPLAIN": "1"}
        done = subprocess.run([TUTTI, "run", "-n", "4", "--bind", "core", "--", TUTTI, "perf", "all_reduce", "--device", "cuda",
                               "-b", "64K", "-e", "64K", "-n", "1", "-w", "0", "-c", "1"],
                              capture_output=True, text=True, timeout=280, env={**os.environ, **env})
        told = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, told)
        self.assertIn("groups: 4 ranks in 2 groups that share a cache each", told)
        links = re.search(r"why all_reduce\(count=16384.* on 4 GPUs.*\):\n((?:.*\n)*?).* algorithm +method", told)
        self.assertIsNotNone(links, told)
        self.assertIn("inside a host: ", links[1])
        self.assertNotIn("group", links[1])


if __name__ == "__main__":
    unittest.main()
