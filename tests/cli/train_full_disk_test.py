#!/usr/bin/env python3
"""tutti train --save on a disk that is full: a checkpoint in the background may fail, the last one may not."""

import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import unittest

from support import LIMIT, children, main, start, tutti

SMALL = ["--layers", "2", "--width", "32", "--length", "32", "--batch", "6"]


class Disk:
    """A file system in memory, which ends with the process that mounts it in a namespace of its own."""

    def __init__(self, folder, bytes):
        own = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
        self.shell = subprocess.Popen([*own, "sh"], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT)
        self.mount_point = folder
        self.folder = f"/proc/{self.shell.pid}/root{folder}"
        said = self.run(f"mount -t tmpfs -o size={bytes} disk {folder}")
        if said != "0":
            self.close()
            raise unittest.SkipTest(f"no file system can be mounted here: {said}")

    def run(self, command):
        """The status, or what the command says of its failure."""
        try:
            self.shell.stdin.write(f"{command}; echo $?\n")
            self.shell.stdin.flush()
        except BrokenPipeError:
            pass
        return self.shell.stdout.readline().strip()

    def grow(self):
        said = self.run(f"mount -o remount,size=100% {self.mount_point}")
        assert said == "0", said

    def close(self):
        self.shell.communicate(timeout=LIMIT)


class FullDisk(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.log = os.path.join(scratch.name, "log")
        one = os.path.join(scratch.name, "one")
        self.finish("-n", "2", "--zero", "1", "--steps", "1", "--save", one)
        bytes = sum(-(-file.stat().st_size // 4096) * 4096 for file in pathlib.Path(one).glob("*/*"))
        mount_point = os.path.join(scratch.name, "disk")
        os.mkdir(mount_point)
        self.disk = Disk(mount_point, bytes * 3 // 2)  # room for one checkpoint, and not for two
        self.addCleanup(self.disk.close)
        self.folder = os.path.join(self.disk.folder, "checkpoints")

    def finish(self, *arguments, status=0):
        done = tutti("train", *SMALL, *arguments)
        self.assertEqual(done.returncode == 0, status == 0, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def checkpoints(self):
        """All that is there, also what is incomplete."""
        return sorted(os.listdir(self.folder))

    def losses(self):
        lines = [json.loads(line) for line in pathlib.Path(self.log).read_text().splitlines()]
        return {line["step"]: line["loss"] for line in lines if "step" in line}

    def expect_to_go_on_when_there_is_room(self, *elastic):
        job = start("train", "-n", "2", "--zero", "1", *SMALL, "--steps", "1000000", "--save", self.folder, "--save-every",
                    "5", *elastic, stderr=subprocess.STDOUT)
        self.addCleanup(job.kill)
        warning, said, ranks = None, [], []
        for line in job.stdout:
            said.append(line)
            if warning is None:
                warning = re.search(r"warning: step (\d+) is not saved: rank \d: checkpoint: (\S+) .*: No space left on device"
                                    r"; training goes on, and the newest checkpoint is that of step 5; make room in "
                                    r"(\S+): step (\d+) is saved next", line)
                if warning:
                    self.assertTrue(warning[2].startswith(f"{self.folder}/step-{int(warning[1]):08}.partial"), line)
                    self.assertEqual(warning[3], self.folder)
                    self.assertEqual(int(warning[4]) % 5, 0)
                    self.assertIn("step-00000005", self.checkpoints())
                    ranks = children(job.pid)
                    self.disk.grow()
            elif (saved := re.search(r"saved step (\d+)", line)) and int(saved[1]) > int(warning[1]):
                break
        else:
            self.fail("".join(said))
        self.assertEqual(children(job.pid), ranks)
        job.send_signal(signal.SIGTERM)
        rest, _ = job.communicate(timeout=LIMIT)
        self.assertEqual(job.returncode, 0, "".join(said) + rest)
        self.assertNotIn("generation", "".join(said) + rest)
        self.assertFalse([name for name in self.checkpoints() if not name[5:].isdigit()])

    def test_training_goes_on_and_saves_when_there_is_room(self):
        self.expect_to_go_on_when_there_is_room()

    def test_no_restart_is_used(self):
        self.expect_to_go_on_when_there_is_room("--restarts", "1")

    def test_the_last_checkpoint_must_be_written(self):
        said = self.finish("-n", "2", "--zero", "1", "--steps", "12", "--save", self.folder, "--save-every", "5", status=1)
        self.assertIn("warning: step 10 is not saved", said)
        self.assertRegex(said, r"rank \d: step 12 is not saved: rank \d: checkpoint: \S+ .*: No space left on device; the "
                               r"newest checkpoint is that of step 5; make room in")
        self.assertEqual(self.checkpoints(), ["step-00000005"])
        self.disk.grow()
        self.finish("-n", "3", "--steps", "12", "--save", self.folder, "--resume", "--json", self.log)
        resumed = self.losses()
        self.assertEqual(sorted(resumed), list(range(6, 13)))
        os.remove(self.log)
        self.finish("-n", "1", "--steps", "12", "--json", self.log)
        whole = self.losses()
        for step, loss in resumed.items():
            self.assertAlmostEqual(loss / whole[step], 1, delta=1e-4)

    def test_the_checkpoint_of_sigterm_must_be_written(self):
        job = start("train", "-n", "2", "--zero", "1", *SMALL, "--steps", "1000000", "--save", self.folder, "--save-every",
                    "5", stderr=subprocess.STDOUT)
        self.addCleanup(job.kill)
        for line in job.stdout:
            if "is not saved" in line:
                break
        job.send_signal(signal.SIGTERM)
        rest, _ = job.communicate(timeout=LIMIT)
        self.assertNotEqual(job.returncode, 0)
        self.assertRegex(rest, r"rank \d: step \d+ is not saved: .*: No space left on device; the newest checkpoint is that of")
        self.assertEqual(self.checkpoints(), ["step-00000005"])


if __name__ == "__main__":
    main()
