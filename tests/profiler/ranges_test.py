#!/usr/bin/env python3
"""Each call is a range of a profiler, with the number that errors and traces give it: ranges_test.py TUTTI PROFILER WINDOWS"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

TUTTI, PROFILER, WINDOWS = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)


def ranges(*arguments, **env):
    """The lines that the profiler writes, and what the program says."""
    with tempfile.NamedTemporaryFile("r") as file:
        env = {**os.environ, "NVTX_INJECTION64_PATH": PROFILER, "TEST_PROFILER_FILE": file.name, **env}
        done = subprocess.run([TUTTI, *arguments], capture_output=True, text=True, timeout=120, env=env)
        assert done.returncode == 0, done.stderr
        return file.read().splitlines(), done.stdout + done.stderr


class Ranges(unittest.TestCase):
    def test_have_the_calls_names_and_numbers(self):
        lines, log = ranges("perf", "all_reduce", "--np", "2", "-b", "4096", "-e", "4096", "-n", "5", "-w", "0", TUTTI_LOG="trace")
        calls = [line for line in lines if line.endswith(": all_reduce(count=1024, f32, sum)")]
        self.assertGreaterEqual(len(calls), 10, lines)
        self.assertTrue(all(line.startswith("tutti ") for line in lines), lines)
        self.assertTrue(all(re.match(r"tutti \d+ world, rank [01]: ", line) for line in calls), calls)
        numbers = [int(line.split()[1]) for line in calls]
        self.assertTrue(all(numbers.count(number) == 2 for number in numbers), "both ranks have the same: " + str(numbers))
        for number in set(numbers):
            self.assertIn(f"call {number} all_reduce(count=1024, f32, sum)", log, "the log has other numbers")

    def test_transfers_of_a_group_are_one(self):
        lines, _ = ranges("perf", "sendrecv", "--np", "2", "-b", "64", "-e", "64", "-n", "1", "-w", "0")
        self.assertTrue([line for line in lines if "send(count=16, f32, to rank" in line], lines)
        self.assertFalse([line for line in lines if "?" in line], "a range ended that had not begun")

    def test_calls_on_windows_are_ranges_too(self):
        lines, _ = ranges("run", "-n", "2", "--", WINDOWS, "--gtest_filter=Windows.CallsOfAGroup*")
        for rank in (0, 1):
            for call in (f"put_signal(8 bytes, to rank {1 - rank} at offset 0, signal 0)", f"wait_signal(1 of signal 0, from rank {1 - rank})"):
                self.assertTrue([line for line in lines if re.fullmatch(rf"tutti 0 .*, rank {rank}: {re.escape(call)}", line)], (call, lines))
        self.assertFalse([line for line in lines if "?" in line], "a range ended that had not begun")

    def test_a_profiler_that_cannot_be_loaded_harms_nobody(self):
        lines, _ = ranges("perf", "all_reduce", "--np", "2", "-b", "64", "-e", "64", "-n", "1", "-w", "0",
                          NVTX_INJECTION64_PATH="/nowhere.so")
        self.assertEqual(lines, [])


if __name__ == "__main__":
    unittest.main()
