"""The quick calibration: twice a boot, kept privately, switched off by a variable."""

import glob
import json
import os
import re
import stat
import subprocess
import sys
import tempfile
import time
import unittest

from support import TUTTI, main, tutti

ATTEMPTS = 3


def first_look():
    """A calibration that can be right, of one look."""
    sizes = (4 << 10, 64 << 10, 512 << 10, 2 << 20)
    copies = [size / 2e9 for size in sizes]
    page = {name: copies for name in ("write", "write_past", "read_past", "both", "kernel", "fold", "stored", "streamed")}
    return {**page, "format": "tutti-calibration 4", "near_line": 3e-7, "far_line": 5e-7, "read": [copies] * 3,
            "tiled": [1e-3] * 3, "thread_switch": 5e-6, "caches": [1 << 20, 32 << 20, 1], "beyond": [1e-9, 1e-9], "took": 0.03,
            "looks": 1}


class ControlGroup:
    """A control group with these limits, of version 2 or 1, where this process may make one; else the test is skipped."""

    def __init__(self, test, controller, unified, classic):
        self.test, self.name = test, f"tutti-test-{os.getpid()}"
        self.tries = [(f"/sys/fs/cgroup/{controller}", classic), ("/sys/fs/cgroup", unified)]

    def __enter__(self):
        for root, limits in self.tries:
            if not os.path.exists(os.path.join(root, "cgroup.procs")):
                continue
            self.path = os.path.join(root, self.name)
            try:
                os.mkdir(self.path)
                for name, value in limits.items():
                    with open(os.path.join(self.path, name), "w") as file:
                        file.write(value)
                subprocess.run(["true"], preexec_fn=self.enter, check=True)
                return self
            except (OSError, subprocess.SubprocessError):
                self.__exit__()
        self.test.skipTest("no control group can be made here")

    def enter(self):
        with open(os.path.join(self.path, "cgroup.procs"), "w") as file:
            file.write("0")

    def __exit__(self, *_):
        if os.path.isdir(self.path):
            os.rmdir(self.path)


class Calibration(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def perf(self, **env):
        done = tutti("perf", "all_reduce", "--np", "2", "-b", "1M", "-e", "1M", "-n", "2", "-w", "1",
                     env={"XDG_CACHE_HOME": self.folder, "TUTTI_CALIBRATION": "1", **env})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")

    def files(self):
        return [path for path in glob.glob(os.path.join(self.folder, "tutti", "calibration-*")) if not path.endswith(".lock")]

    def the_file(self):
        self.assertEqual(len(self.files()), 1)
        return self.files()[0]

    def read(self):
        with open(self.the_file()) as file:
            return file.read()

    def write_first_look(self):
        self.perf()  # which makes the file, whatever it says
        with open(self.the_file(), "w") as file:
            json.dump(first_look(), file)

    def is_written_by_a_call(self, a_minute_later):
        if a_minute_later:
            before = time.time() - 2 * 60
            os.utime(self.the_file(), (before, before))
        made = os.stat(self.the_file()).st_mtime_ns
        self.perf()
        return os.stat(self.the_file()).st_mtime_ns != made

    @unittest.skipIf(os.cpu_count() < 2, "one processor")
    def test_is_made_once_and_kept_privately(self):
        for _ in range(ATTEMPTS):  # a busy machine is measured again
            self.perf()
            if "tutti-calibration" in self.read():
                break
        path = self.the_file()
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        made = os.stat(path).st_mtime_ns
        text = self.read()
        self.perf()
        self.assertEqual((os.stat(path).st_mtime_ns, self.read()), (made, text))
        if "tutti-calibration" in text:
            told = tutti("info", env={"XDG_CACHE_HOME": self.folder, "TUTTI_CALIBRATION": "1", "TUTTI_PROFILE": "off"}).stdout
            self.assertRegex(told, r"(?m)^  took +\d+ ms$")

    @unittest.skipIf(os.cpu_count() < 2, "one processor")
    def test_a_second_look_is_taken_a_minute_later_and_no_third(self):
        def times(page):
            return [time for name in ("write", "fold", "stored") for time in page[name]] + [page["far_line"]]

        self.write_first_look()
        self.assertTrue(self.is_written_by_a_call(a_minute_later=True))
        first, second = first_look(), json.loads(self.read())
        self.assertEqual(second["looks"], 2)
        self.assertTrue(all(new <= old for new, old in zip(times(second), times(first))), second)
        if second["took"] > first["took"]:  # else the machine was too busy for it
            self.assertLess(second["write"][2], first["write"][2])
        self.assertFalse(self.is_written_by_a_call(a_minute_later=True))

    @unittest.skipIf(os.cpu_count() < 2, "one processor")
    def test_a_second_look_waits_for_a_minute(self):
        self.write_first_look()
        self.assertFalse(self.is_written_by_a_call(a_minute_later=False))

    @unittest.skipIf(os.cpu_count() < 2, "one processor")
    def test_where_nothing_can_be_written_the_first_look_counts(self):
        self.write_first_look()
        lock = self.the_file() + ".lock"
        os.unlink(lock)
        os.mkdir(lock)  # so that it cannot be opened, nor replaced
        self.assertFalse(self.is_written_by_a_call(a_minute_later=True))
        told = tutti("info", env={"XDG_CACHE_HOME": self.folder, "TUTTI_CALIBRATION": "1", "TUTTI_PROFILE": "off"})
        self.assertRegex(told.stdout, r"(?m)^calibration\n  source +the quick calibration")
        self.assertEqual(json.loads(self.read()), first_look())

    @unittest.skipIf(os.cpu_count() < 2, "one processor")
    def test_a_file_that_cannot_be_read_is_replaced(self):
        self.perf()
        with open(self.the_file(), "w") as file:
            file.write("{")
        self.perf()
        self.assertRegex(self.read(), r"tutti-calibration|^implausible \d")

    @unittest.skipIf(os.cpu_count() < 2, "one processor")
    def test_after_three_attempts_the_built_in_figures_remain(self):
        self.perf()
        with open(self.the_file(), "w") as file:
            file.write("implausible 3\n")
        self.perf()
        self.assertEqual(self.read(), "implausible 3\n")
        done = tutti("info", env={"XDG_CACHE_HOME": self.folder, "TUTTI_CALIBRATION": "1", "TUTTI_LOG": "info"})
        self.assertIn("there is no quick calibration, so the table's figures are used: the machine was too busy, 3 times", done.stderr)
        self.assertIn(f"none: the machine was too busy, 3 times; processes try again in 10 minutes, or once {self.the_file()} is "
                      "removed", " ".join(done.stdout.split()))
        told = tutti("explain", "all_reduce", "-n", "2", "--json", env={"XDG_CACHE_HOME": self.folder, "TUTTI_CALIBRATION": "1"})
        self.assertIn("links have the library's constants, for the quick calibration has no figures: the machine was too busy, 3 "
                      "times", " ".join(json.loads(told.stdout)["notes"]))

    @unittest.skipIf(os.cpu_count() < 2, "one processor")
    def test_after_ten_minutes_attempts_are_forgotten(self):
        self.perf()
        with open(self.the_file(), "w") as file:
            file.write("implausible 3\n")
        before = time.time() - 11 * 60
        os.utime(self.the_file(), (before, before))
        self.perf()
        self.assertRegex(self.read(), r"tutti-calibration|^implausible [12]")

    @unittest.skipIf(os.cpu_count() < 2, "one processor")
    def test_info_says_why_there_is_none_and_what_to_do(self):
        def source(**env):
            told = tutti("info", env={"XDG_CACHE_HOME": self.folder, "TUTTI_CALIBRATION": "1", "TUTTI_PROFILE": "off", **env})
            return re.search(r"(?m)^calibration\n  source +(.*)$", told.stdout)[1]

        self.assertEqual(source(TUTTI_CALIBRATION="0"), "none: TUTTI_CALIBRATION is off")
        self.assertEqual(source(XDG_CACHE_HOME="", HOME=""), "none: there is no cache folder: set HOME or XDG_CACHE_HOME")
        self.assertEqual(source(XDG_CACHE_HOME="/dev/null"), "none: /dev/null/tutti: Not a directory")

    def settles(self, **process):
        """A first process, in a disturbed machine: it ends soon, and has a calibration that can be right, or says why not."""
        begun = time.monotonic()
        done = tutti("info", env={"XDG_CACHE_HOME": self.folder, "TUTTI_CALIBRATION": "1", "TUTTI_LOG": "info",
                                  "TUTTI_PROFILE": "off"}, **process)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(time.monotonic() - begun, 60, "tens of milliseconds, of which a throttled process has few")
        source = re.search(r"(?m)^calibration\n  source +(.*)$", done.stdout)[1]
        if source.startswith("none"):
            self.assertRegex(done.stderr, "there is no quick calibration, so the table's figures are used: "
                                          "(the machine is too busy|this process may use one core only)")
        else:
            self.assertIn("the quick calibration", source)
            self.assertNotIn("no quick calibration", done.stderr)
        chosen = tutti("explain", "all_reduce", "--bytes", "64K", "-n", "2",
                       env={"XDG_CACHE_HOME": self.folder, "TUTTI_CALIBRATION": "1", "TUTTI_PROFILE": "off"})
        self.assertRegex(chosen.stdout, r"(?m)^\* \w+ +lanes .* chosen$")
        return source

    def test_under_load_it_is_sane_or_left_out(self):
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]
        try:
            self.settles()
        finally:
            for process in busy:
                process.kill()
                process.wait()

    def test_of_a_throttled_process_it_is_sane_or_left_out(self):
        with ControlGroup(self, "cpu", {"cpu.max": "10000 100000"}, {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "10000"}) as group:
            self.settles(preexec_fn=group.enter)

    def test_of_one_core_there_is_none(self):
        core = str(min(os.sched_getaffinity(0)))
        with ControlGroup(self, "cpuset", {"cpuset.cpus": core}, {"cpuset.cpus": core, "cpuset.mems": "0"}) as group:
            self.assertEqual(self.settles(preexec_fn=group.enter), "none: this process may use one core only")

    def test_can_be_switched_off(self):
        self.perf(TUTTI_CALIBRATION="0")
        self.assertEqual(self.files(), [])

    def test_ranks_of_different_figures_agree(self):
        """Each rank has figures of its own: the choice is rank 0's, and results are right."""
        with tempfile.TemporaryDirectory() as other:
            script = ('if [ "$TUTTI_RANK" = 1 ]; then export XDG_CACHE_HOME=%s TUTTI_CALIBRATION=0; fi; exec "$0" "$@"' % other)
            done = tutti("run", "-n", "2", "--", "sh", "-c", script, TUTTI, "perf", "all_to_all", "-b", "64K", "-e", "2M",
                         "-f", "2", "-n", "3", "-w", "1", env={"XDG_CACHE_HOME": self.folder, "TUTTI_CALIBRATION": "1"})
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    main()
