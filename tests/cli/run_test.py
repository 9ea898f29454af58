"""tutti run: ranks' environment and output, signals, and failures."""

import collections
import fcntl
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest

from support import LIMIT, TUTTI, WAIT_FOREVER, alive, children, main, name_of, start, tutti


class Ranks(unittest.TestCase):
    def test_get_their_environment(self):
        done = tutti("run", "-n", "3", "--", "sh", "-c",
                     "echo $TUTTI_RANK $TUTTI_SIZE $TUTTI_LOCAL_RANK $TUTTI_LOCAL_SIZE $TUTTI_JOB/$TUTTI_KEY")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = sorted(done.stdout.splitlines())
        jobs = {line.split()[-1] for line in lines}
        self.assertEqual([line.rsplit(" ", 1)[0] for line in lines], [f"[{r}] {r} 3 {r} 3" for r in range(3)])
        self.assertEqual(len(jobs), 1)
        self.assertRegex(jobs.pop(), "^[0-9a-f]{32}/[0-9a-f]{64}$")

    def test_do_not_get_a_variable_that_is_not_set_of_which_a_warning_tells(self):
        done = tutti("run", "-n", "1", "-x", "MENDED", "-x", "PATH", "-x", "EMPTY=", "--", "true")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("warning"), 1, done.stderr)
        self.assertIn("-x MENDED: it is not set here, so ranks do not get it; -x MENDED=VALUE sets it", done.stderr)

    def test_that_do_not_come_are_asked_after(self):
        env = {"TUTTI_INIT_TIMEOUT": "1"}
        script = '[ $TUTTI_RANK = 1 ] || exec "$0" perf all_reduce -b 8 -e 8'
        done = tutti("run", "-n", "2", "--", "sh", "-c", script, TUTTI, env=env)
        asked = "timed out waiting for rank 1 to fetch the unique id at .*: has it exited, or not called yet\\? TUTTI_INIT_TIMEOUT waits longer"
        self.assertRegex(done.stderr + done.stdout, r"rank 0 of 2 \(tutti run\) " + asked)
        done = tutti("perf", "all_reduce", "-b", "8", "-e", "8", env={**env, "TUTTI_RANK": "0", "TUTTI_SIZE": "2"})
        self.assertRegex(done.stderr, r"rank 0 of 2 \(TUTTI_RANK and TUTTI_SIZE set by hand\) " + asked)

    def test_numbers_that_cannot_be_are_refused(self):
        for arguments, words in ((("-np", "2", "--", "true"), "there is no option -np: write -n N or --np N"),
                                 (("-np", "2", "true"), "there is no option -np: write -n N or --np N"),
                                 (("-n", "2", "--min-ranks", "3", "--", "true"), "--min-ranks 3: the job has 2 ranks"),
                                 (("-n", "2", "--grace", "nan", "--", "true"), "--grace: Value nan not in range 0 to 1e+06")):
            done = tutti("run", *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(words, done.stderr)

    def test_of_two_jobs_have_different_secrets(self):
        for name in "TUTTI_JOB", "TUTTI_KEY":
            told = {tutti("run", "-n", "1", "--no-prefix", "--", "sh", "-c", f"echo ${name}").stdout for _ in range(2)}
            self.assertEqual(len(told), 2)

    def test_have_the_users_secret(self):
        done = tutti("run", "-n", "1", "--no-prefix", "--", "sh", "-c", "echo $TUTTI_KEY", env={"TUTTI_KEY": "mine"})
        self.assertEqual(done.stdout, "mine\n")

    @unittest.skipUnless(os.cpu_count() % 2 == 0 and len(os.sched_getaffinity(0)) == os.cpu_count(),
                         "an odd number of processors, or not all may be used: a description of several caches must be of all")
    def test_that_share_a_cache_are_a_group(self):
        cores = os.cpu_count()
        each = 1 if cores == 2 else 2  # cores of a cache
        caches = {"HWLOC_SYNTHETIC": f"package:1 l3:{cores // each} core:{each} pu:1", "TUTTI_LOG": "info"}
        groups = r"\[0, 2\] \[1, 3\]" if cores == 2 else r"\[0, 1\] \[2, 3\]"
        forced = {"TUTTI_ALGO": "all_reduce:hierarchical,all_to_all:hierarchical,all_gather:hierarchical"}
        for collective in "all_reduce", "all_to_all", "all_gather":
            done = tutti("run", "-n", "4", "--bind", "core", "--", TUTTI, "perf", collective, "-b", "1K", "-e", "64K", "-f", "8",
                         "-n", "2", "-w", "0", "-c", "1", env={**caches, **forced})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout + done.stderr, rf"groups: 4 ranks in 2 groups that share a cache each, of 2 to 2 ranks: {groups}")
            self.assertRegex(done.stdout, r"shm hierarchical/lanes")

    def test_are_bound_to_cores_if_there_are_enough(self):
        cores = os.cpu_count()
        done = tutti("run", "-n", "1", "--bind", "core", "-v", "--", "true")
        self.assertIn("on processors", done.stderr)
        done = tutti("run", "-n", str(cores + 1), "-v", "--", "true")
        self.assertIn("not bound to cores", done.stderr)
        self.assertNotIn("on processors", done.stderr)

    def test_with_different_cma_settings_are_refused(self):
        for mind in "off", "always":
            done = tutti("run", "-n", "3", "--", "sh", "-c",
                         f"[ $TUTTI_RANK != 1 ] || export TUTTI_CMA={mind}; exec $0 perf all_to_all -b 4K -n 2", TUTTI)
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr, 'TUTTI_CMA is "auto" on rank [02] but "%s" on rank 1; it must be the same'
                             '|TUTTI_CMA is "%s" on rank 1 but "auto" on rank [02]; it must be the same' % (mind, mind))

    def test_program_may_follow_without_dashes_and_keeps_its_options(self):
        self.assertEqual(tutti("run", "-n", "1", "echo", "-n", "x", "--", "y").stdout, "[0] x -- y\n")
        self.assertEqual(tutti("run", "-n", "1", "--", "echo", "--", "-n", "2").stdout, "[0] -- -n 2\n")

    def test_only_rank_0_reads_standard_input(self):
        done = tutti("run", "-n", "3", "--", "cat", stdin="one\ntwo\n")
        self.assertEqual(done.stdout, "[0] one\n[0] two\n")


def waiting(job):
    """Bytes in the pipe from the job."""
    return struct.unpack("i", fcntl.ioctl(job.stdout, termios.FIONREAD, bytes(4)))[0]


class Output(unittest.TestCase):
    def test_is_prefixed_on_both_streams_and_a_partial_line_is_not_lost(self):
        done = tutti("run", "-n", "2", "--", "sh", "-c", "echo out; echo err >&2; printf tail")
        self.assertEqual(sorted(done.stdout.splitlines()), ["[0] out", "[0] tail", "[1] out", "[1] tail"])
        self.assertEqual(sorted(done.stderr.splitlines()), ["[0] err", "[1] err"])

    def test_lines_of_different_ranks_do_not_mix(self):
        done = tutti("run", "-n", "4", "--", "sh", "-c",
                     "i=0; while [ $i -lt 2000 ]; do echo $TUTTI_RANK-$i-%s; i=$((i+1)); done" % ("x" * 100))
        last = collections.Counter()
        for line in done.stdout.splitlines():
            rank, number = re.fullmatch(r"\[(\d)\] \1-(\d+)-x{100}", line).groups()
            self.assertEqual(int(number), last[rank])
            last[rank] += 1
        self.assertEqual(sorted(last.values()), [2000] * 4)

    def test_without_prefix_is_as_written(self):
        self.assertEqual(tutti("run", "-n", "1", "--no-prefix", "--", "printf", "a\\nb").stdout, "a\nb")

    def test_a_closed_reader_ends_the_job_silently(self):
        for arguments in (("run", "-n", "2", "--", "yes"), ("run", "-n", "2", "--no-prefix", "--", "yes"), ("train", "-n", "2"),
                          ("perf", "all_reduce", "--np", "2")):
            job = start(*arguments)
            job.stdout.readline()
            job.stdout.close()
            self.assertEqual(job.wait(60), 128 + signal.SIGPIPE)
            self.assertEqual(job.stderr.read(), "")
            job.stdin.close()
            job.stderr.close()

    def test_a_full_device_is_named(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([TUTTI, "run", "-n", "2", "--", "echo", "hi"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stderr),
                         (1, "tutti run: its output cannot be written: No space left on device\n"))

    def stuck(self, *options, **streams):
        """A job whose output nobody reads: its pipe is full."""
        job = start("run", "-n", "2", *options, "--", "sh", "-c", "echo begin; yes; true", **streams)
        self.addCleanup(lambda: (job.kill(), job.wait(), job.stdin.close(), job.stdout.close()))
        capacity = fcntl.fcntl(job.stdout, fcntl.F_GETPIPE_SZ)
        end = time.monotonic() + 60
        while waiting(job) < capacity * 3 // 4:
            self.assertLess(time.monotonic(), end)
            os.sched_yield()
        return job

    def test_that_nobody_reads_does_not_keep_it_from_obeying(self):
        for number in signal.SIGTERM, signal.SIGINT:
            job = self.stuck(stderr=subprocess.DEVNULL)
            job.send_signal(number)
            self.assertEqual(job.wait(LIMIT), 128 + number)

    def test_and_messages_that_nobody_reads_neither(self):
        job = self.stuck(stderr=subprocess.STDOUT)
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(LIMIT), 128 + signal.SIGTERM)

    def test_is_kept_for_a_late_reader(self):
        job = start("run", "-n", "2", "--", "seq", "8000", stderr=subprocess.DEVNULL)
        end = time.monotonic() + LIMIT
        while waiting(job) == 0 or any(name_of(child) == "seq" for child in children(job.pid)):
            self.assertLess(time.monotonic(), end)
            os.sched_yield()
        lines = job.communicate(timeout=LIMIT)[0].splitlines()  # more than fits into a pipe
        self.assertEqual(job.returncode, 0)
        for rank in "[0] ", "[1] ":
            told = [line[4:] for line in lines if line.startswith(rank)]
            self.assertEqual(told, [str(i + 1) for i in range(8000)])


class Failure(unittest.TestCase):
    def test_of_one_rank_is_reported_and_is_the_exit_status(self):
        done = tutti("run", "-n", "3", "--grace", "0.1", "--", "sh", "-c", '[ $TUTTI_RANK != 2 ] && exec sleep 1000; exit 7')
        self.assertEqual(done.returncode, 7)
        self.assertRegex(done.stderr, r"tutti run: rank 2 \(pid \d+\): exited with status 7\n")
        self.assertRegex(done.stderr, r"still running, and ended now: rank 0, 1 ")

    def test_by_a_signal_is_reported_and_is_the_exit_status(self):
        done = tutti("run", "-n", "3", "--", "sh", "-c", '[ $TUTTI_RANK = 1 ] && kill -9 $$; exit 0')
        self.assertEqual(done.returncode, 128 + 9)
        self.assertRegex(done.stderr, r"tutti run: rank 1 \(pid \d+\): killed by signal 9 \(Killed\)\n")

    def test_leaves_the_others_time_for_their_own_errors(self):
        # Rank 0 fails with its own error because rank 1 has ended.
        with tempfile.TemporaryDirectory() as folder:
            os.mkfifo(folder + "/pipe")
            os.mkfifo(folder + "/watched")
            done = tutti("run", "-n", "2", "--", "python3", "-c", f"""
import os, select, sys
if os.environ["TUTTI_RANK"] == "1":
    with open("{folder}/pipe", "w") as pipe: pipe.write(str(os.getpid()))
    open("{folder}/watched").close()
    sys.exit(3)
with open("{folder}/pipe") as pipe: other = os.pidfd_open(int(pipe.read()))
open("{folder}/watched", "w").close()
select.select([other], [], [])
print("I saw it", file=sys.stderr)
sys.exit(4)""")
        self.assertEqual(done.returncode, 3)
        self.assertIn("[0] I saw it\n", done.stderr)
        self.assertRegex(done.stderr, r"tutti run: after it: rank 0 \(pid \d+\): exited with status 4\n")

    def test_kills_ranks_that_do_not_end(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkfifo(folder + "/pipe")
            done = tutti("run", "-n", "2", "--grace", "0.1", "--", "python3", "-c", f"""
import os, signal, sys
if os.environ["TUTTI_RANK"] == "1":
    open("{folder}/pipe").read()
    sys.exit(5)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open("{folder}/pipe", "w").close()
while True: signal.pause()""")
        self.assertEqual(done.returncode, 5)
        self.assertRegex(done.stderr, r"after it: rank 0 \(pid \d+\): killed by signal 9 \(Killed\)")

    def test_leaves_the_others_alone_where_they_are_to_go_on(self):
        script = '[ $TUTTI_RANK = 1 ] && kill -9 $$; sleep 0.5; echo goes on; exit $1'
        done = tutti("run", "-n", "3", "--keep-going", "--grace", "0", "--", "sh", "-c", script, "sh", "0")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout.count("goes on\n"), 2)
        self.assertRegex(done.stderr, r"tutti run: rank 1 \(pid \d+\): killed by signal 9 \(Killed\)\n")
        done = tutti("run", "-n", "3", "--keep-going", "--grace", "0", "--", "sh", "-c", script, "sh", "4")
        self.assertEqual(done.returncode, 128 + 9, "no rank succeeded: the first failure's")
        self.assertEqual(done.stdout.count("goes on\n"), 2)

    def test_to_start_is_reported_once(self):
        done = tutti("run", "-n", "3", "--", "./no-such-program")
        self.assertEqual(done.returncode, 127)
        self.assertEqual(done.stderr, 'tutti run: cannot run "./no-such-program": No such file or directory\n')
        self.assertEqual(tutti("run", "-n", "1", "--", "/etc").returncode, 126)


class Signals(unittest.TestCase):
    def end_by(self, number, expect_in_rank):
        """A job of two ranks that wait for the signal, report it and exit with 0."""
        job = start("run", "-n", "2", "--", "python3", "-uc", f"""
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [{int(number)}])  # stays pending until sigwait()
print("ready")
print("got", int(signal.sigwait([{int(number)}])))""")
        ready = sorted(job.stdout.readline() for _ in range(2))
        self.assertEqual(ready, ["[0] ready\n", "[1] ready\n"])
        job.send_signal(number)
        out, err = job.communicate(timeout=60)
        self.assertEqual(sorted(out.splitlines()), [f"[{r}] got {expect_in_rank}" for r in range(2)])
        return job.returncode, err

    def test_reach_all_ranks(self):
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1:
            with self.subTest(number):
                status, _ = self.end_by(number, int(number))
                self.assertEqual(status, 0)  # the ranks handled it

    def test_that_end_the_ranks_are_the_exit_status(self):
        job = start("run", "-n", "2", "--", "sh", "-c", WAIT_FOREVER)
        pids = [int(job.stdout.readline().split()[1]) for _ in range(2)]
        job.send_signal(signal.SIGINT)
        _, err = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 128 + signal.SIGINT)
        self.assertEqual(err, "tutti run: ended by signal 2 (Interrupt)\n")
        self.assertFalse(any(alive(pid) for pid in pids))


class WhileRanksAreStarted(unittest.TestCase):
    """Rank 0 causes the event before all others are started. The ranks sleep, so many of them cause no load."""
    def run_many(self, of_rank_0, of_others, status):
        done = tutti("run", "-n", "300", "--", "sh", "-c",
                     f'if [ $TUTTI_RANK = 0 ]; then {of_rank_0}; else {of_others}; fi', env={"TUTTI_ARENA": "64K"})
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertRegex(done.stderr, r"tutti run: \d+ of 300 ranks had been started; no more will be\n")
        return done.stderr

    def test_a_signal_ends_the_start(self):
        for number in signal.SIGTERM, signal.SIGINT, signal.SIGHUP:
            with self.subTest(number):
                err = self.run_many(f"kill -{int(number)} $PPID; exec sleep 1000", "exec sleep 1000", 128 + number)
                self.assertIn(f"ended by signal {int(number)} ", err)

    def test_a_signal_that_the_ranks_handle_ends_the_start_too(self):
        well = "trap 'exit 0' TERM; {}sleep 1000 & wait"
        self.run_many(well.format("kill -TERM $PPID; "), well.format(""), 128 + signal.SIGTERM)  # the job was incomplete

    def test_a_failure_ends_the_start(self):
        err = self.run_many("exit 7", "exec sleep 1000", 7)
        self.assertRegex(err, r"rank 0 \(pid \d+\): exited with status 7\n")

    def test_later_failures_are_summarised(self):
        done = tutti("run", "-n", "12", "--grace", "0.1", "--", "sh", "-c",
                     '[ $TUTTI_RANK = 11 ] && exit 7; trap "exit 3" TERM; sleep 1000 & wait')
        self.assertEqual(done.returncode, 7)
        self.assertRegex(done.stderr, r"after it: (rank \d+ [^;]*; ){8}and 3 more\n")


class Limits(unittest.TestCase):
    def refused(self, words, *arguments, limit="--nofile=64", env=None):
        """With few open files, too, so that a launcher that ignored the demand would soon fail."""
        done = subprocess.run(["prlimit", limit, TUTTI, *arguments], capture_output=True, text=True, timeout=60,
                              env={**os.environ, **(env or {})})
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout, "")  # nothing was started
        self.assertIn(words, done.stderr)
        self.assertRegex(done.stderr, r": \d+ ranks at most")

    def test_of_open_files(self):
        self.refused("RLIMIT_NOFILE (ulimit -Hn) allows 64", "run", "-n", "30", "--", "echo")

    def test_of_memory(self):
        self.refused("1048576.0 MiB each for staging memory (TUTTI_ARENA)", "run", "-n", "500", "--", "echo",
                     limit="--nofile=64:", env={"TUTTI_ARENA": "1T"})

    def test_of_processes(self):
        with open("/proc/sys/kernel/pid_max") as most:
            if int(most.read()) > 65536:
                self.skipTest("this system may have so many")
        self.refused("ranks are at least 131072 processes and threads; ", "perf", "all_reduce", "-e", "8", "--np", "65536")

    def test_of_this_user(self):
        """As nobody if this is root, whom the limit does not bind: with a copy of the program, since nobody may not see the
        folder of the build."""
        program, other = [TUTTI], []
        if os.getuid() == 0:
            folder = tempfile.TemporaryDirectory()
            self.addCleanup(folder.cleanup)
            os.chmod(folder.name, 0o755)
            program = [shutil.copy(TUTTI, folder.name)]
            other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        done = subprocess.run(["prlimit", "--nproc=50", *other, *program, "run", "-n", "60", "--", "echo"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertRegex(done.stderr, r"RLIMIT_NPROC \(ulimit -u\), 50, leaves .*: \d+ ranks at most")

    def test_raised_by_the_launcher_are_restored_for_ranks(self):
        done = subprocess.run(["prlimit", "--nofile=40:4096", TUTTI, "run", "-n", "30", "--", "sh", "-c", "ulimit -n"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({line.split()[1] for line in done.stdout.splitlines()}, {"40"})


class BadCommandLines(unittest.TestCase):
    def test_are_refused_with_a_remedy(self):
        for arguments, words in (
                (["-n", "0", "--", "true"], "not in range"),
                (["-n", "2"], "write it after --"),
                (["--no-such-flag", "--", "true"], "--no-such-flag"),
                (["--bind", "socket", "--", "true"], "--bind"),
                (["--hosts", "a:0", "--", "true"], "from 1 to"),
                (["--hosts", "a,,b", "--", "true"], "is not a host"),
                (["--hosts", "-oProxyCommand=x", "--", "true"], "is not a host"),
                (["--hosts", "a:2", "-n", "3", "--", "true"], "give them more, e.g. a:3"),
                (["--hosts", "a,a", "--", "true"], "twice"),
                (["--grace", "soon", "--", "true"], "--grace")):
            with self.subTest(arguments):
                done = tutti("run", *arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(words, done.stderr)
                self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    main()
