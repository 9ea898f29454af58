"""Another user of the host holds the name at which the ranks of a job would meet: they meet elsewhere, or say who it is.

    held_name_test.py TUTTI [unittest's arguments]
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

TUTTI = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
LIMIT = 60  # seconds until a hanging rank fails
OTHER = 65534  # uid of nobody


def start(rank, variables):
    """A rank of two that all-reduces, with more variables; one that is None is not set."""
    every = {**os.environ, "XDG_CACHE_HOME": None, "TUTTI_KEY": None, "TUTTI_RANK": rank, "TUTTI_SIZE": 2,
             "TUTTI_LOCAL_RANK": rank, "TUTTI_LOCAL_SIZE": 2, "TUTTI_JOB": f"held{os.getpid()}", "TUTTI_INIT_TIMEOUT": 2,
             **variables}
    return subprocess.Popen([TUTTI, "perf", "all_reduce", "-b", "8", "-e", "8", "-n", "2", "-w", "1"], text=True,
                            env={name: str(value) for name, value in every.items() if value is not None},
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def run_job(**variables):
    """Outputs and exit statuses of both ranks."""
    ranks = [start(rank, variables) for rank in range(2)]
    return [(process.communicate(timeout=LIMIT)[0], process.returncode) for process in ranks]


def name_of_meeting():
    """The name that anyone can compute who knows the job's identity; here a rank that is alone tells it."""
    output = start(1, {}).communicate(timeout=LIMIT)[0]
    return re.search(r"abstract UNIX socket '([^']+)'", output).group(1)


@contextlib.contextmanager
def held_by_other(name, listens):
    """Another user's process holds the name."""
    ready, told = os.pipe()
    holder = os.fork()
    if holder == 0:
        os.setgid(OTHER)
        os.setuid(OTHER)
        held = socket.socket(socket.AF_UNIX)
        held.bind("\0" + name)
        if listens:
            held.listen(1000)
        os.write(told, b"!")
        signal.pause()
    os.read(ready, 1)
    try:
        yield
    finally:
        os.kill(holder, 9)
        os.waitpid(holder, 0)


@unittest.skipUnless(os.geteuid() == 0, "only root can be two users")
class HeldName(unittest.TestCase):
    def setUp(self):
        self.name = name_of_meeting()

    def test_ranks_meet_elsewhere(self):
        for listens in True, False:
            with self.subTest(listens=listens), tempfile.TemporaryDirectory() as home:
                with held_by_other(self.name, listens):
                    (first, status), (second, other) = run_job(HOME=home)
                self.assertEqual((status, other), (0, 0), first + second)
                self.assertIn(f"is held by {'uid 65534' if listens else 'another process'}: the ranks meet", first)
                self.assertNotIn(self.name, os.listdir(os.path.join(home, ".cache", "tutti")))

    def test_without_a_home_each_rank_says_who_holds_it(self):
        with held_by_other(self.name, True):
            ends = run_job(HOME=None)
        for output, status in ends:
            self.assertEqual(status, 1)
            self.assertIn("held by uid 65534", output)
        self.assertIn("Set TUTTI_KEY", ends[0][0])

    def test_a_key_makes_a_name_that_others_do_not_know(self):
        with held_by_other(self.name, True):
            ends = run_job(TUTTI_KEY="5" * 64, HOME=None)
        for output, status in ends:
            self.assertEqual(status, 0, output)
            self.assertNotIn("is held by", output)

    def test_a_stale_file_does_no_harm(self):
        with tempfile.TemporaryDirectory() as home:
            folder = os.path.join(home, ".cache", "tutti")
            os.makedirs(folder)
            with open(os.path.join(folder, self.name), "w", encoding="ascii") as file:
                file.write("tutti-exchange_unique_id-of-a-job-that-was-killed")
            for output, status in run_job(HOME=home):
                self.assertEqual(status, 0, output)


if __name__ == "__main__":
    unittest.main()
