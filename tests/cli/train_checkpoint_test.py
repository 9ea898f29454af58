#!/usr/bin/env python3
"""tutti train --save and --resume: after a rank's death, on other ranks, and what is refused."""

import json
import os
import pathlib
import re
import shutil
import signal
import tempfile
import time
import unittest

import support
from support import LIMIT, Terminal, children, main, start, tutti

SMALL = ["--layers", "2", "--width", "32", "--length", "32", "--batch", "6"]


def losses(log):
    """Loss by step."""
    lines = [json.loads(line) for line in pathlib.Path(log).read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines if "step" in line}


class Checkpoints(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = os.path.join(scratch.name, "checkpoints")
        self.log = os.path.join(scratch.name, "log")

    def steps(self):
        return sorted(int(name[5:]) for name in os.listdir(self.folder) if name[5:].isdigit())

    def train(self, *arguments):
        done = tutti("train", *SMALL, "--json", self.log, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return losses(self.log)

    def test_a_killed_rank_is_reported_and_the_run_goes_on_from_the_last_checkpoint(self):
        job = start("train", "-n", "3", "--zero", "3", *SMALL, "--steps", "1000000", "--save", self.folder, "--save-every",
                    "3")
        for line in job.stdout:
            if "saved step 6" in line:
                break
        victim = children(job.pid)[2]
        os.kill(victim, signal.SIGKILL)
        _, errors = job.communicate(timeout=support.LIMIT)
        self.assertNotEqual(job.returncode, 0)
        dead = re.search(rf"rank (\d) \(pid {victim}\): killed by signal 9", errors)
        self.assertTrue(dead, errors)
        survivors = re.findall(rf"rank (\d): .*rank {dead[1]} .* is gone", errors)
        self.assertEqual({*survivors, dead[1]}, {"0", "1", "2"}, errors)
        newest = self.steps()[-1]
        resumed = self.train("-n", "2", "--zero", "1", "--steps", str(newest + 4), "--save", self.folder, "--resume")
        self.assertEqual(sorted(resumed), list(range(newest + 1, newest + 5)))
        self.assertEqual(self.steps()[-1], newest + 4)
        whole = self.train("-n", "1", "--steps", str(newest + 4))
        for step, loss in resumed.items():
            self.assertAlmostEqual(loss / whole[step], 1, delta=1e-4)

    def test_ctrl_c_saves_and_ends(self):
        for ranks in ((), ("-n", "2")):  # with ranks, the terminal's signal reaches the launcher, and by it the ranks
            job = Terminal("train", *ranks, *SMALL, "--steps", "1000000", "--save", self.folder, "--save-every", "1000000")
            job.read_until("\n      1 ")
            job.type("\x03")
            text, status = job.end()
            self.assertEqual(status, 0, text)
            self.assertRegex(text, r"asked to end: saves step \d+ first")
            saved = re.search(r"saved step (\d+) in", text)
            self.assertTrue(saved, text)
            self.assertEqual(self.steps(), [int(saved[1])])
            shutil.rmtree(self.folder)

    def test_a_step_longer_than_ranks_of_other_jobs_have_is_saved(self):
        job = start("train", "-n", "2", *SMALL, "--steps", "4", "--pp", "2", "--micro-batches", "2", "--pace", "1100",
                    "--save", self.folder)
        time.sleep(1)
        job.send_signal(signal.SIGINT)  # in the first step: it takes more than the 7 s until other ranks are killed
        _, errors = job.communicate(timeout=LIMIT)
        self.assertEqual(job.returncode, 0, errors)
        self.assertEqual(len(self.steps()), 1, errors)

    def test_other_runs_checkpoints_are_not_added_to(self):
        self.train("-n", "1", "--steps", "2", "--save", self.folder)
        again = tutti("train", "-n", "2", *SMALL, "--save", self.folder)
        self.assertNotEqual(again.returncode, 0)
        self.assertIn("there is a checkpoint of step 2; go on from it with --resume", again.stderr)

    def test_a_torn_checkpoint_is_refused_on_every_rank(self):
        self.train("-n", "2", "--zero", "2", "--steps", "4", "--save", self.folder, "--save-every", "2")
        torn = pathlib.Path(self.folder, "step-00000004", "rank-00000.bin")
        torn.write_bytes(torn.read_bytes()[:-4])
        resumed = tutti("train", "-n", "2", *SMALL, "--save", self.folder, "--resume")
        self.assertNotEqual(resumed.returncode, 0)
        self.assertIn("rank-00000.bin is torn", resumed.stderr)
        self.assertIn("to go on from step 2", resumed.stderr)
        self.assertEqual(self.steps(), [2, 4])

    def test_another_model_is_refused_without_advice_to_remove(self):
        self.train("-n", "2", "--steps", "4", "--save", self.folder, "--save-every", "2")
        resumed = tutti("train", "-n", "2", "--layers", "3", *SMALL[2:], "--steps", "9", "--save", self.folder, "--resume")
        self.assertNotEqual(resumed.returncode, 0)
        self.assertIn("its layers is 2, and here it is 3: restore --layers 2", resumed.stderr)
        self.assertNotIn("remove", resumed.stderr)
        self.assertNotRegex(resumed.stderr, r"rank \d: rank \d")

    def test_a_run_that_is_already_done_says_so(self):
        self.train("-n", "1", "--steps", "3", "--save", self.folder)
        again = tutti("train", *SMALL, "--steps", "3", "--save", self.folder, "--resume", "--svg", self.log)
        self.assertGreater(again.returncode, 0)
        self.assertIn("step 3 of 3 is already done; raise --steps", again.stderr)

    def test_resuming_appends_to_the_log_and_warns_of_differences(self):
        self.train("-n", "1", "--steps", "3", "--save", self.folder)
        curve = os.path.join(self.folder, "curve.svg")
        resumed = tutti("train", *SMALL, "--steps", "5", "--save", self.folder, "--resume", "--json", self.log, "--rate",
                        "0.01", "--svg", curve, "--seed", "2")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertIn("warning: the rate was 0.003 and is 0.01, the seed was 1 and is 2", resumed.stderr)
        self.assertEqual(sorted(losses(self.log)), [1, 2, 3, 4, 5])
        self.assertIn("middle'>4</text>", pathlib.Path(curve).read_text())

    def test_the_remains_of_a_killed_save_are_removed(self):
        os.makedirs(os.path.join(self.folder, "step-00000007.partial"))
        self.train("-n", "1", "--steps", "3", "--save", self.folder)
        self.assertEqual(os.listdir(self.folder), ["step-00000003"])

    def test_flags_that_do_not_fit_together(self):
        for flags, words in ((["--resume"], "--save DIR"), (["--zero", "1", "--data-parallel", "server"], "exclude"),
                             (["--zero", "1", "--wire-type", "bf16"], "choose bf16 weights, or DDP")):
            done = tutti("train", *SMALL, *flags)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)

    def test_memory_stands_beside_its_formula(self):
        tutti("train", "-n", "2", *SMALL, "--zero", "3", "--bf16", "--checkpoint-activations", "--steps", "2", "--json",
              self.log)
        summary = json.loads(pathlib.Path(self.log).read_text().splitlines()[-1])["summary"]
        for kind, formula in zip(("weights", "gradients", "optimizer"), summary["formula_bytes"]):
            self.assertAlmostEqual(summary["peak_bytes"][kind], formula, delta=16 * 4)


if __name__ == "__main__":
    main()
