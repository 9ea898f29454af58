"""tutti perf: its ranks as processes and threads, in groups and on hosts; how they end; its progress on a terminal."""

import os
import re
import signal
import subprocess
import unittest

from support import Terminal, gone, main, start, tutti

QUICK = ("-n", "1", "-w", "0")


class Ranks(unittest.TestCase):
    def pids(self, text):
        return re.findall(r"#  Rank +\d+ Pid +(\d+)", text)

    def test_are_processes_threads_or_both(self):
        done = tutti("perf", "all_reduce", "--np", "2", "-t", "2", "-b", "8", "-e", "8", *QUICK)
        self.assertEqual(done.returncode, 0, done.stderr)
        pids = self.pids(done.stdout)
        self.assertEqual((len(pids), len(set(pids))), (4, 2))

    def test_are_those_of_the_launcher(self):
        done = tutti("run", "-n", "2", "--", os.path.realpath(os.sys.argv[1]), "perf", "all_reduce", "-b", "8", "-e", "8",
                     *QUICK)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(set(self.pids(done.stdout))), 2)
        self.assertTrue(all(line.startswith("[0] ") for line in done.stdout.splitlines()))  # one table

    def test_in_groups_use_hierarchical_algorithms(self):
        algorithms = ",".join(c + ":hierarchical" for c in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                                            "broadcast"))
        for collective in ("all_reduce", "broadcast"):
            done = tutti("perf", collective, "--np", "5", "-b", "8", "-e", "256K", "-f", "32", *QUICK,
                         env={"TUTTI_GROUPS": "0,0,1,1,1", "TUTTI_ALGO": algorithms, "TUTTI_LOG": "info"})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"# with TUTTI_ALGO={algorithms} TUTTI_GROUPS=0,0,1,1,1\n", done.stdout)
            self.assertIn("5 ranks in 2 groups, of 2 to 3 ranks", done.stderr)

    def test_must_agree_on_their_groups(self):
        done = tutti("run", "-n", "2", "--", "sh", "-c", 'TUTTI_GROUPS=$((TUTTI_RANK + 1)) exec "$0" perf barrier -n 1',
                     os.path.realpath(os.sys.argv[1]))
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, 'TUTTI_GROUPS is "[12]" on rank [01] but "[12]" on rank [01]; it must be the same')

    def test_of_one_host_are_a_group(self):
        """A host is a set of processes that can share memory: another IPC namespace is another host."""
        alone = ["unshare", "--map-root-user", "--ipc"]
        if subprocess.run([*alone, "true"], capture_output=True).returncode != 0:
            self.skipTest("this system lets nobody make an IPC namespace")
        done = tutti("run", "-n", "3", "--", "sh", "-c",
                     f'[ $TUTTI_RANK = 1 ] && exec {" ".join(alone)} "$0" "$@"; exec "$0" "$@"',
                     os.path.realpath(os.sys.argv[1]), "perf", "all_reduce", "-b", "8", "-e", "64K", "-f", "64", *QUICK,
                     env={"TUTTI_LOG": "info"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("3 ranks in 2 groups, of 1 to 2 ranks", done.stderr)
        done = tutti("perf", "all_reduce", "--np", "3", "-b", "8", "-e", "8", *QUICK, env={"TUTTI_LOG": "info"})
        self.assertRegex(done.stderr, "groups: (none|3 ranks in .* that share a cache each)")

    def test_without_any_network_say_what_is_missing(self):
        alone = ["unshare", "--map-root-user", "--net"]  # in which even loopback is down
        if subprocess.run([*alone, "true"], capture_output=True).returncode != 0:
            self.skipTest("this system lets nobody make a network namespace")
        done = subprocess.run([*alone, os.sys.argv[1], "perf", "all_reduce", "--np", "2", *QUICK], capture_output=True, text=True,
                              timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("not even loopback, over which ranks of one host meet: `ip link set lo up`", done.stderr)
        self.assertNotIn("TUTTI_INTERFACE", done.stderr)

    def test_that_die_are_named(self):
        job = start("perf", "all_reduce", "--np", "2", "-b", "8", "-e", "8", "-n", "100000000")
        text = ""
        while len(self.pids(text)) < 2:
            line = job.stdout.readline()
            self.assertTrue(line, text)
            text += line
        os.kill(int(self.pids(text)[1]), signal.SIGKILL)
        _, errors = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 128 + signal.SIGKILL)
        self.assertRegex(errors, r"tutti perf: rank 1 \(pid \d+\): killed by signal 9 \(Killed\)")
        self.assertRegex(errors, r"tutti perf: rank 0: .*rank 1")  # rank 0's own error

    def test_end_by_ctrl_c(self):
        job = start("perf", "all_reduce", "--np", "2", "-b", "8", "-e", "8", "-n", "100000000")
        text = ""
        while len(self.pids(text)) < 2:
            text += job.stdout.readline()
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=60)
        self.assertEqual(job.returncode, 128 + signal.SIGINT)
        for pid in self.pids(text):
            self.assertTrue(gone(int(pid)))


class OnATerminal(unittest.TestCase):
    def test_a_long_run_shows_progress_and_ctrl_c_clears_it(self):
        job = Terminal("perf", "all_reduce", "--np", "2", "-b", "8", "-e", "8", "-n", "100000000")
        job.read_until("\r\033[K# 1 of 1: all_reduce of 8 f32, out of place")
        job.type("\x03")
        rest, status = job.end()
        self.assertEqual(status, 128 + signal.SIGINT)
        self.assertIn("\r\033[K", rest)

    def test_it_also_shows_the_remaining_time(self):
        job = Terminal("perf", "all_reduce", "--np", "2", "-b", "8", "-e", "1G", "-n", "300000", "-f", "1.1")
        job.read_until("; about ")
        self.assertRegex(job.read_until(" left"), r"^\d+ (s|min|h) left$")
        job.type("\x03")
        job.end()

    def test_a_short_run_shows_none(self):
        job = Terminal("perf", "all_reduce", "-b", "8", "-e", "8", *QUICK)
        rest, status = job.end()
        self.assertEqual(status, 0)
        self.assertNotIn("\033", rest)


if __name__ == "__main__":
    main()
