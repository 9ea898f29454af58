"""tutti status: what the ranks of a running job do."""

import json
import os
import re
import signal
import socket
import time
import unittest

from support import LIMIT, main, tutti
from watched_job import ENDLESS, Job, page_of, until


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
            launcher = json.loads(tutti("status", "--json", str(job.runs.pid)).stdout)
            self.assertIn(launcher["process"], job.ranks.values())
            text = tutti("status", str(process)).stdout
            self.assertIn(f"process {process} on ", text)
            self.assertIn("4 processes", text)
            self.assertRegex(text, r"world \(\w+\): 4 ranks\n")

    def test_a_launcher_that_serves_its_job_leads_to_its_ranks(self):
        with Job(*ENDLESS, options=["--restarts", "1"]) as job:
            launcher = str(job.runs.pid)
            for asked in [launcher], [str(job.ranks[2])]:
                self.assertIn("4 processes of its job", tutti("status", *asked).stdout)
            self.assertEqual(len(tutti("status").stdout.split(f"process {launcher} on")), 1, "it is no job of its own")
            self.assertIn("4 processes on 1 host", tutti("trace", launcher).stdout)
            self.assertIn("4 processes", tutti("top", "--times", "1", "--interval", "0.2", launcher).stdout)

    def test_a_stopped_rank_is_named(self):
        with Job(*ENDLESS) as job:
            os.kill(job.ranks[2], signal.SIGSTOP)

            def verdict():
                found = page_of(job.ranks[1])["verdicts"]
                return found and "0, 1, 3 wait" in found[0] and found[0]

            said = until(verdict)
            self.assertTrue(said)
            self.assertIn(f"for rank 2 (process {job.ranks[2]} on ", said)
            self.assertIn("whose process is stopped, by a signal or a debugger", said)
            text = tutti("status", str(job.ranks[1])).stdout
            self.assertIn("  rank 2: its process is stopped", text)

            def heard():
                return [process.get("heard_seconds", -1) for process in page_of(job.ranks[1])["processes"]
                        if process["process"] == job.ranks[2]][0]

            self.assertGreater(until(lambda: (heard() > 1) and heard()), 1, "rank 0's process hears nothing of it")
            self.assertRegex(tutti("status", str(job.ranks[1])).stdout, r"is stopped, last heard of \d+ s ago \(")
            refused = tutti("status", str(job.ranks[2]))
            self.assertEqual((refused.returncode, refused.stdout), (1, ""))
            self.assertIn(f"process {job.ranks[2]} does not answer: it is stopped", refused.stderr)

    def test_the_first_rank_may_be_the_stopped_one(self):
        with Job(*ENDLESS) as job:
            os.kill(job.ranks[0], signal.SIGSTOP)
            said = until(lambda: [text for text in page_of(job.ranks[3])["verdicts"] if "ranks 1, 2, 3 wait" in text])
            self.assertIn(f"for rank 0 (process {job.ranks[0]} on ", said[0])

    def test_a_training_run_is_shown(self):
        if "not in this build" in tutti("train", "--help").stdout:
            self.skipTest("a build without OpenBLAS has no `tutti train`")
        with Job("train", "--steps", "1000000") as job:
            self.assertEqual(len(page_of(job.ranks[3])["processes"]), 4)

    def test_a_name_that_somebody_else_has_taken_is_not_asked(self):
        with open("/proc/1/stat") as file:
            started = file.read().rsplit(")", 1)[1].split()[19]
        with socket.socket(socket.AF_UNIX) as taken:
            taken.bind(f"\0tutti-status-1-{started}")
            taken.listen()
            done = tutti("status", "1")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("process 1 cannot be asked", done.stderr)

    def test_clients_that_half_close_or_say_nothing_harm_nobody(self):
        with Job(*ENDLESS) as job:
            with open("/proc/net/unix") as file:
                name = re.search(rf"@(tutti-status-{job.ranks[1]}-\d+)", file.read())[1]
            idle = []
            for _ in range(100):  # some are turned away
                idle.append(socket.socket(socket.AF_UNIX))
                idle[-1].connect("\0" + name)
            time.sleep(0.2)  # so that they are accepted before they close
            for one in idle:
                one.close()
            with socket.socket(socket.AF_UNIX) as half:
                half.settimeout(LIMIT)
                half.connect("\0" + name)
                half.sendall(b"job\n")
                half.shutdown(socket.SHUT_WR)
                reply = b""
                while got := half.recv(65536):
                    reply += got
            self.assertEqual(json.loads(reply)["process"], job.ranks[1])
            for wrong in b"\n", b"jobs\n", b"x" * 1000, b"job\njob\n":
                with socket.socket(socket.AF_UNIX) as rude:
                    rude.settimeout(LIMIT)
                    rude.connect("\0" + name)
                    rude.sendall(wrong)
                    try:
                        self.assertEqual(rude.recv(100), b"")
                    except ConnectionResetError:
                        pass

    def test_a_process_that_cannot_be_asked_is_refused_with_the_reason(self):
        for process, why in [(os.getpid(), "cannot be asked: it does not use Tutti"), (4194304, "there is no process 4194304")]:
            done = tutti("status", str(process))
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(why, done.stderr)
        for wrong in "0", "-1", "x", "4294967295", "99999999999":
            self.assertEqual(tutti("status", wrong).returncode, 2)


if __name__ == "__main__":
    main()
