"""tutti status: what the ranks of a running job do."""

import json
import os
import signal
import subprocess
import time
import unittest

from support import LIMIT, TUTTI, main, start, tutti


class Job:
    """Endless all-reduces of four processes."""

    def __init__(self, *arguments):
        self.runs = start("run", "-n", "4", "--no-prefix", "--", TUTTI, *arguments, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL)
        until = time.time() + LIMIT
        self.ranks = {}
        while len(self.ranks) < 4 and time.time() < until:
            time.sleep(0.1)
            for page in pages():
                for process in page["processes"]:
                    for rank in process["ranks"]:
                        if rank["title"] == "world" and rank.get("entered", 0) > 0:
                            self.ranks[rank["rank"]] = process["process"]
        assert len(self.ranks) == 4, self.ranks

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for process in self.ranks.values():
            try:
                os.kill(process, signal.SIGCONT)
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.runs.communicate(timeout=LIMIT)


def pages():
    return [json.loads(line) for line in tutti("status", "--json").stdout.splitlines()]


def page_of(process):
    return json.loads(tutti("status", "--json", str(process)).stdout)


def until(condition):
    """Its first true value, or the last one after a while."""
    end = time.time() + LIMIT / 2
    while True:
        value = condition()
        if value or time.time() > end:
            return value
        time.sleep(0.2)


ENDLESS = ("perf", "all_reduce", "-b", "64K", "-e", "64K", "-n", "100000000", "-w", "0", "-c", "0")


class Status(unittest.TestCase):
    def test_any_process_tells_of_all(self):
        with Job(*ENDLESS) as job:
            for process in job.ranks.values():
                page = page_of(process)
                self.assertEqual(page["process"], process)
                self.assertEqual({one["process"] for one in page["processes"]}, set(job.ranks.values()))
                self.assertEqual(page["processes"][0]["process"], process, "the one that was asked comes first")
                for one in page["processes"]:
                    self.assertEqual(one["state"], "answers")
                    world = [rank for rank in one["ranks"] if rank["title"] == "world"]
                    self.assertRegex(world[0]["call"], r"^all_reduce\(count=16384, f32, sum\)$|^barrier")
            text = tutti("status", str(process)).stdout
            self.assertIn(f"process {process} on ", text)
            self.assertIn("4 processes", text)
            self.assertRegex(text, r"world \(\w+\): 4 ranks\n")

    def test_a_stopped_rank_is_named(self):
        with Job(*ENDLESS) as job:
            os.kill(job.ranks[2], signal.SIGSTOP)

            def verdict():
                found = page_of(job.ranks[1])["verdicts"]
                return found and "0, 1, 3 wait" in found[0] and found[0]

            said = until(verdict)
            self.assertTrue(said)
            self.assertIn(f"for rank 2 (process {job.ranks[2]} on ", said)
            self.assertIn("whose process does not answer", said)
            text = tutti("status", str(job.ranks[1])).stdout
            self.assertIn("  rank 2: its process does not answer", text)
            refused = tutti("status", str(job.ranks[2]))
            self.assertEqual((refused.returncode, refused.stdout), (1, ""))
            self.assertIn(f"process {job.ranks[2]} does not answer: it is stopped", refused.stderr)

    def test_the_first_rank_may_be_the_stopped_one(self):
        with Job(*ENDLESS) as job:
            os.kill(job.ranks[0], signal.SIGSTOP)
            said = until(lambda: [text for text in page_of(job.ranks[3])["verdicts"] if "ranks 1, 2, 3 wait" in text])
            self.assertIn(f"for rank 0 (process {job.ranks[0]} on ", said[0])

    def test_a_training_run_is_shown(self):
        with Job("train", "--steps", "1000000") as job:
            self.assertEqual(len(page_of(job.ranks[3])["processes"]), 4)

    def test_a_process_that_cannot_be_asked_is_refused_with_the_reason(self):
        for process, why in [(os.getpid(), "cannot be asked: it does not use Tutti"), (4194304, "there is no process 4194304")]:
            done = tutti("status", str(process))
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(why, done.stderr)
        for wrong in "-1", "x", "99999999999":
            self.assertEqual(tutti("status", wrong).returncode, 2)


if __name__ == "__main__":
    main()
