"""tutti train --restarts and --min-ranks: a lost rank costs seconds of work, and the curve is that of one run."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

TUTTI = sys.argv[1]
LIMIT = 120  # seconds until a hanging test fails
WORKS_FOR = 7.5  # seconds before a rank is killed: copies are made every two seconds
SMALL = ["--layers", "2", "--width", "32", "--length", "32", "--batch", "12"]


def losses(log):
    """Loss by step; of steps that were made twice, the later one."""
    lines = [json.loads(line) for line in pathlib.Path(log).read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines if "step" in line}


def ranks_of(job, words="launched"):
    """The job's processes: the launcher's guardian is none."""
    listed = subprocess.run(["pgrep", "-P", str(job.pid), "-f", words], capture_output=True, text=True).stdout.split()
    return [int(pid) for pid in listed]


class Training(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = os.path.join(scratch.name, "checkpoints")
        self.log = os.path.join(scratch.name, "log")

    def start(self, *arguments):
        job = subprocess.Popen([TUTTI, "train", *SMALL, "--json", self.log, *arguments], text=True, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(job.kill)
        return job

    def end(self, job):
        out, errors = job.communicate(timeout=LIMIT)
        self.assertEqual(job.returncode, 0, errors)
        return out, errors

    def await_line(self, job, stream, pattern):
        """The match of the first line with the pattern. A job that does not write it in time is killed."""
        watchdog = threading.Timer(LIMIT, job.kill)  # which ends the stream
        watchdog.start()
        self.addCleanup(watchdog.cancel)
        for line in stream:
            if match := re.search(pattern, line):
                watchdog.cancel()
                return match
        self.fail(f"the job ended, or {LIMIT} s passed, without a line of '{pattern}'")

    def undisturbed(self, steps):
        log = self.log + ".whole"
        done = subprocess.run([TUTTI, "train", *SMALL, "--json", log, "--steps", str(steps), "-n", "1"], capture_output=True,
                              text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 0, done.stderr)
        return losses(log)

    def await_steps(self, steps):
        end = time.monotonic() + LIMIT
        while not os.path.exists(self.log) or len(losses(self.log)) < steps:
            self.assertLess(time.monotonic(), end, "no steps")
            time.sleep(0.01)

    def expect_the_curve_of_one_run(self, steps, delta=1e-6):
        seen, whole = losses(self.log), self.undisturbed(steps)
        self.assertEqual(sorted(seen), list(range(1, steps + 1)))
        self.assertLess(max(abs(seen[step] / whole[step] - 1) for step in whole), delta)

    def test_any_rank_may_be_lost_and_is_replaced(self):
        for zero, victim in ("3", 0), ("1", 2):
            with self.subTest(zero=zero, victim=victim):
                if os.path.exists(self.log):
                    os.remove(self.log)
                job = self.start("-n", "4", "--zero", zero, "--steps", "400", "--restarts", "1", "--snapshot-every", "0")
                self.await_steps(40)
                os.kill(ranks_of(job)[victim], signal.SIGKILL)
                _, errors = self.end(job)
                step = re.search(r"generation 2 of 4 ranks goes on after step (\d+), from copies in memory", errors)
                self.assertTrue(step, errors)
                self.assertGreater(int(step[1]), 0)
                self.expect_the_curve_of_one_run(400)

    def watch(self, seconds):
        """When each step came into the log, for so long from the first one on."""
        reached, end = {}, time.monotonic() + LIMIT
        while not reached or time.monotonic() < reached[min(reached)] + seconds:
            self.assertLess(time.monotonic(), end, "no steps")
            for step in losses(self.log) if os.path.exists(self.log) else ():
                reached.setdefault(step, time.monotonic())
            time.sleep(0.02)
        return reached

    def test_five_seconds_of_work_are_lost_at_most(self):
        """With the interval between copies that tutti train has by itself."""
        job = self.start("-n", "4", "--zero", "3", "--steps", "1000000", "--restarts", "1")
        reached = self.watch(WORKS_FOR)
        os.kill(ranks_of(job)[2], signal.SIGKILL)
        killed = time.monotonic()
        kept = int(self.await_line(job, job.stderr,
                                   r"generation 2 of 4 ranks goes on after step (\d+), from copies in memory")[1])
        lost = killed - reached.get(kept + 1, killed)
        print(f"{max(reached)} steps in {WORKS_FOR} s, on after step {kept}: {lost:.1f} s of work are done again")
        self.assertLessEqual(lost, 5)
        self.assertGreater(kept, 0)
        job.send_signal(signal.SIGTERM)
        self.end(job)

    def test_the_others_go_on(self):
        job = self.start("-n", "4", "--zero", "2", "--steps", "400", "--min-ranks", "3", "--snapshot-every", "0")
        self.await_steps(40)
        os.kill(ranks_of(job)[1], signal.SIGKILL)
        _, errors = self.end(job)
        self.assertRegex(errors, r"generation 2 of 3 ranks goes on after step \d+, from copies in memory")
        self.expect_the_curve_of_one_run(400)

    def test_a_checkpoint_is_used_where_no_copies_are_left(self):
        job = self.start("-n", "2", "--zero", "3", "--steps", "100000", "--restarts", "2", "--snapshot-every", "1000",
                         "--save", self.folder, "--save-every", "5")
        self.await_line(job, job.stdout, "saved step 10")
        for rank in ranks_of(job):  # with all their copies
            os.kill(rank, signal.SIGKILL)
        goes_on = self.await_line(job, job.stderr,
                                  r"generation 2 of 2 ranks goes on after step (\d+), from the newest checkpoint")
        self.assertGreaterEqual(int(goes_on[1]), 10)
        job.send_signal(signal.SIGTERM)
        self.end(job)

    def test_sigterm_saves_and_the_run_goes_on_later(self):
        job = self.start("-n", "2", "--zero", "1", "--steps", "100000", "--save", self.folder)
        self.await_steps(20)
        job.send_signal(signal.SIGTERM)
        out, errors = job.communicate(timeout=LIMIT)
        saved = re.search(r"saved step (\d+) in", out)
        self.assertTrue(saved, out + errors)
        step = int(saved[1])
        self.end(self.start("-n", "3", "--steps", str(step + 10), "--save", self.folder, "--resume"))
        self.expect_the_curve_of_one_run(step + 10)

    def test_a_folder_that_cannot_be_written_is_refused_at_the_start(self):
        job = self.start("-n", "2", "--steps", "100000", "--save", "/proc/nothing")
        _, errors = job.communicate(timeout=LIMIT)
        self.assertNotEqual(job.returncode, 0)
        self.assertIn("/proc/nothing", errors)
        self.assertFalse(losses(self.log) if os.path.exists(self.log) else {})

    def expect_refusals(self, why, *arguments):
        """Of a job that starts ranks again, where they say by their status that they refuse, and where they do not."""
        train = [TUTTI, "train", *SMALL, "--json", self.log, *arguments]
        for program, status in (train, 2), (["sh", "-c", '"$@" || exit 1', "sh", *train], 1):
            with self.subTest(status=status):
                done = subprocess.run([TUTTI, "run", "-n", "2", "--restarts", "3", "--", *program], stdin=subprocess.DEVNULL,
                                      capture_output=True, text=True, timeout=LIMIT)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(why, done.stderr)
                self.assertEqual("it is started again" in done.stderr, status == 1, done.stderr)
                self.assertNotIn("goes on after", done.stderr)
                self.assertFalse(losses(self.log) if os.path.exists(self.log) else {})

    def test_restarts_do_not_undo_the_refusal_of_another_runs_checkpoint(self):
        self.end(self.start("-n", "1", "--steps", "3", "--save", self.folder))
        os.remove(self.log)
        self.expect_refusals("there is a checkpoint of step 3; go on from it with --resume", "--seed", "7", "--steps", "9",
                             "--save", self.folder)
        self.assertEqual(os.listdir(self.folder), ["step-00000003"])

    def test_restarts_do_not_undo_the_refusal_of_a_folder_that_cannot_be_written(self):
        self.expect_refusals("/proc/nothing", "--steps", "9", "--save", "/proc/nothing")

    def test_restarts_do_not_undo_that_a_resumed_run_is_already_done(self):
        self.end(self.start("-n", "1", "--steps", "3", "--save", self.folder))
        os.remove(self.log)
        self.expect_refusals("step 3 of 3 is already done; raise --steps", "--steps", "3", "--save", self.folder, "--resume")

    def test_the_jobs_own_checkpoint_is_gone_on_from_with_a_warning_where_the_curve_is_another(self):
        what = 'if [ $TUTTI_RESTART = 0 ]; then set -- "$@" --steps 100000; else set -- "$@" --steps 40 --seed 2; fi; exec "$@"'
        job = subprocess.Popen([TUTTI, "run", "-n", "2", "--restarts", "2", "--", "sh", "-c", what, "sh", TUTTI, "train", *SMALL,
                                "--save", self.folder, "--save-every", "5", "--snapshot-every", "1000"],
                               text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(job.kill)
        self.await_line(job, job.stdout, "saved step 10")
        for rank in ranks_of(job, r"^\S+ train"):  # with all their copies
            os.kill(rank, signal.SIGKILL)
        _, errors = self.end(job)
        self.assertRegex(errors, r"generation 2 of 2 ranks goes on after step \d+, from the newest checkpoint")
        self.assertIn("warning: the seed was 1 and is 2: the curve is not that of one run", errors)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
