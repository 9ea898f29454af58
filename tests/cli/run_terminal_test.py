"""tutti run: nothing is left behind, and how it behaves on a terminal."""

import os
import signal
import time
import unittest

from support import TUTTI, WAIT_FOREVER, Terminal, alive, children, gone, main, name_of, start, tutti


class NothingIsLeft(unittest.TestCase):
    def test_when_the_launcher_is_killed(self):
        # Each rank is a shell that waits for a child: both must end.
        job = start("run", "-n", "2", "--", "sh", "-c", "sleep 1000 & echo $$ $!; wait")
        pids = [int(pid) for _ in range(2) for pid in job.stdout.readline().split()[1:]]
        self.assertEqual(len(pids), 4)
        job.kill()
        job.communicate(timeout=60)
        for pid in pids:
            self.assertTrue(gone(pid), pid)

    def test_of_ranks_children(self):
        done = tutti("run", "-n", "2", "--", "sh", "-c", "sleep 1000 & setsid sleep 1000 & echo $! $$; exit 0")
        self.assertEqual(done.returncode, 0)
        for line in done.stdout.splitlines():
            for pid in line.split()[1:]:
                self.assertFalse(alive(int(pid)), line)


    # A rank, a child in its group, and one in a session of its own whose parent has ended.
    FAMILY = "(setsid sh -c 'echo $$; exec sleep 1000' &); sh -c 'echo $$; exec sleep 1000' & echo $$; wait"

    def family(self):
        job = start("run", "-n", "2", "--", "sh", "-c", self.FAMILY)
        return job, [int(job.stdout.readline().split()[1]) for _ in range(6)]

    def end(self, job, pids):
        job.communicate(timeout=60)
        for pid in pids:
            self.assertTrue(gone(pid), pid)

    def guardian(self, job, but=None):
        """The guardian's process, once it has set its name; started independently of launcher and ranks."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            for pid in children(job.pid):
                if pid != but and name_of(pid) == "tutti-guardian":
                    return pid
        self.fail("there is no guardian")

    def test_of_children_in_new_sessions_when_the_launcher_is_killed(self):
        job, pids = self.family()
        job.kill()
        self.end(job, pids)

    def test_when_the_guardian_is_killed_first(self):
        job, pids = self.family()
        first = self.guardian(job)
        os.kill(first, signal.SIGKILL)
        self.assertTrue(gone(first))
        self.guardian(job, but=first)  # another one
        job.kill()
        self.end(job, pids)

    def test_of_the_ranks_when_guardian_and_launcher_are_killed_at_once(self):
        job = start("run", "-n", "2", "--", "sh", "-c", WAIT_FOREVER)
        pids = [int(job.stdout.readline().split()[1]) for _ in range(2)]
        guardian = self.guardian(job)
        os.kill(job.pid, signal.SIGSTOP)  # it cannot start another
        os.kill(guardian, signal.SIGKILL)
        job.kill()
        self.end(job, pids)

    def test_of_a_job_within_a_job(self):
        job = start("run", "-n", "1", "--", TUTTI, "run", "-n", "1", "--", "sh", "-c", self.FAMILY)
        pids = [int(job.stdout.readline().split()[2]) for _ in range(3)]
        job.kill()
        self.end(job, pids)

    def test_when_the_job_ends_by_itself_or_by_a_signal(self):
        job, pids = self.family()
        job.terminate()
        self.end(job, pids)


class OnATerminal(unittest.TestCase):
    def test_rank_0_reads_it_and_ctrl_c_ends_all(self):
        # exec: dash loses a SIGINT that comes while it starts a child, and then waits for the child.
        job = Terminal("run", "-n", "2", "--", "sh", "-c",
                       'echo ready; [ $TUTTI_RANK = 0 ] && read x && echo "got $x"; exec sleep 1000')
        for _ in range(2):
            job.read_until("ready")
        job.type("words\n")
        self.assertIn("\033[31m[0]\033[0m got words", job.read_until("got words"))
        job.type("\x03")
        rest, status = job.end()
        self.assertEqual(status, 128 + signal.SIGINT)
        self.assertIn("ended by signal 2", rest)

    def test_its_end_of_file_is_rank_0s(self):
        job = Terminal("run", "-n", "1", "--", "cat")
        job.type("a\n\x04")
        rest, status = job.end()
        self.assertEqual(status, 0)
        self.assertIn("\033[31m[0]\033[0m a", rest)

    def test_lines_are_forwarded_as_they_are_written(self):
        # Python, like every C program, buffers 4 KiB or more before it writes to a pipe.
        job = Terminal("run", "-n", "2", "--", "python3", "-c", """
import signal
signal.signal(signal.SIGINT, signal.SIG_DFL)
print("line")
signal.pause()""", env={"PYTHONUNBUFFERED": ""})
        for _ in range(2):
            job.read_until("line\r\n")  # our own terminal converts the newline, once
        job.type("\x03")
        self.assertEqual(job.end()[1], 128 + signal.SIGINT)

    def test_output_is_a_terminal_and_unchanged(self):
        job = Terminal("run", "-n", "1", "--", "python3", "-c", """
import os, sys
print([os.isatty(fd) for fd in range(3)])
os.write(1, b"tab\\there\\n" + b"x" * 100000 + b"\\nlast words")""")
        rest, status = job.end()
        self.assertEqual(status, 0)
        self.assertIn("[False, True, False]\r\n", rest)
        self.assertIn("tab\there\r\n", rest)
        self.assertEqual(rest.count("x"), 100000)
        self.assertTrue(rest.endswith("last words\r\n"), rest[-100:])

    def test_without_pty_it_is_a_pipe(self):
        job = Terminal("run", "-n", "1", "--no-pty", "--", "sh", "-c", "test -t 1 && echo tty || echo pipe")
        self.assertIn("pipe", job.end()[0])

    def test_ranks_last_output_precedes_the_launchers(self):
        for _ in range(20):
            job = Terminal("run", "-n", "1", "--", "sh", "-c", "echo last words; kill -9 $$")
            rest, _ = job.end()
            self.assertRegex(rest, r"(?s)last words\r\n.*tutti run: rank 0")

    def test_window_size_changes_are_forwarded(self):
        job = Terminal("run", "-n", "1", "--", "python3", "-c", """
import os, signal
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])  # stays pending until sigwait()
print("ready", flush=True)
while signal.sigwait([signal.SIGWINCH]): print("size", os.get_terminal_size(1).columns, flush=True)""")
        job.read_until("ready")
        job.resize(50, 120)
        self.assertIn("size 116", job.read_until("size 116"))  # beside "[0] "
        job.type("\x03")
        job.end()

    def test_colours_need_a_terminal(self):
        job = Terminal("run", "-n", "1", "--", "echo", "plain", env={"NO_COLOR": "1"})
        rest, _ = job.end()
        self.assertEqual(rest, "[0] plain\r\n")


if __name__ == "__main__":
    main()
