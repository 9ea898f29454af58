"""Ranks that are slow are warned of, and others are not.

    slow_test.py TUTTI LIAR [MINUTES [SEED]]

With MINUTES: a job with random work, one core of which something else takes at times, for so long: no warning may come.
"""

import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import unittest

from support import LIAR, main, tutti
from watched_job import Job, until

MINUTES, SEED = (float(word) for word in (sys.argv[3:] + ["0", "1"][len(sys.argv) - 3:])[:2])
CALLS = ("perf", "all_reduce", "-b", "64K", "-e", "64K", "-n", "100000000", "-w", "0", "-c", "0")
SLOW = r"world: rank 2 \(process \d+ on \S+\) is slow: in the last \d+ s it took [12]\.\d ms more than the others before each " \
    r"collective; waiting for it costs them \d+ % of their time"
BURN = "import sys, time\nend = time.time() + float(sys.argv[1])\nwhile time.time() < end: pass"
del sys.argv[3:]


def verdicts(process):
    done = tutti("status", "--json", str(process))
    return json.loads(done.stdout)["verdicts"] if done.returncode == 0 else []


def calls_of(process):
    return json.loads(tutti("status", "--json", str(process)).stdout)["processes"][0]["ranks"][0]["entered"]


def pin(process, core):
    """All threads of a process."""
    for thread in os.listdir(f"/proc/{process}/task"):
        os.sched_setaffinity(int(thread), {core})


class Logged(Job):
    """A job whose processes log into files of a folder."""

    def __init__(self, lie, folder, **variables):
        super().__init__(*CALLS, binary=LIAR, env={"LIAR": lie, "TUTTI_LOG_FILE": os.path.join(folder, "%p.log"), **variables})
        self.folder = folder

    def warnings(self):
        texts = [pathlib.Path(self.folder, name).read_text() for name in os.listdir(self.folder) if name.endswith(".log")]
        return [line for text in texts for line in text.splitlines() if " is slow: " in line]


class Logs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name


class Slow(Logs):
    def test_a_rank_that_is_a_tenth_slower_is_found_within_a_thousand_calls(self):
        """Beside it a job in which nothing is looked for: then nothing is found."""
        with tempfile.TemporaryDirectory() as folder, Logged("pace:2:1", folder, TUTTI_SLOW="0") as other, \
                Logged("pace:2:1", self.folder) as job:
            found = until(lambda: [text for text in verdicts(job.ranks[1]) if " is slow: " in text])
            calls = calls_of(job.ranks[1])
            warnings = job.warnings()
            self.assertGreaterEqual(calls_of(other.ranks[1]), calls)
            self.assertEqual((verdicts(other.ranks[1]), other.warnings()), ([], []))
        self.assertEqual(len(found), 1, found)
        self.assertRegex(found[0], f"^{SLOW}$")
        self.assertLessEqual(calls, 1000)
        self.assertEqual(len(warnings), 1, warnings)
        self.assertRegex(warnings[0], SLOW)



class SlowUnderLoad(Logs):
    def test_load_that_comes_and_goes_is_no_slow_rank(self):
        choose = random.Random(SEED)
        cores = sorted(os.sched_getaffinity(0))
        end = time.time() + 60 * MINUTES
        slow = os.path.join(self.folder, "slow")
        with Logged("work:1:1", self.folder, LIAR_FILE=slow) as job:
            for rank, process in job.ranks.items():
                pin(process, cores[rank % len(cores)])
            while time.time() < end:
                time.sleep(choose.uniform(1, 15))  # the core is not taken
                thief = ["taskset", "-c", str(choose.choice(cores)), sys.executable, "-c", BURN, str(choose.uniform(0.1, 4))]
                subprocess.run(thief, check=True)
                self.assertEqual(job.warnings(), [])
            calls = calls_of(job.ranks[0])
            print(f"{calls} calls in {MINUTES} minutes, no warning", flush=True)
            pathlib.Path(slow).touch()  # now rank 1 works for longer: it was looked for all the time
            self.assertTrue(until(lambda: any("rank 1 (process" in line for line in job.warnings())))


if MINUTES == 0:
    del SlowUnderLoad  # it was not asked for


if __name__ == "__main__":
    main()
