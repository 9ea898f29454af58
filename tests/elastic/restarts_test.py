"""tutti run --restarts and --min-ranks: ranks that fail are started again, or the job goes on without them."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TUTTI, PROGRAM = sys.argv[1:3]
LIMIT = 60  # seconds until a hanging test fails
MANY = "100000000"  # steps that no test makes


def start(*arguments, env=None):
    return subprocess.Popen([TUTTI, "run", *arguments], env={**os.environ, **(env or {})}, text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run(*arguments, env=None):
    """Exit status, standard output and standard error."""
    job = start(*arguments, env=env)
    out, errors = job.communicate(timeout=LIMIT)
    return job.returncode, out, errors


def read_until(stream, pattern):
    """The match of the first line that has one."""
    for line in stream:
        if match := re.search(pattern, line):
            return match
    raise AssertionError(f"{pattern} did not come")


def await_generation(job, number):
    """Waits until the ranks of that generation, or a later one, are in their loop."""
    while int(read_until(job.stdout, r"generation (\d+) begins")[1]) < number:
        pass


def last_line(out):
    return out.splitlines(keepends=True)[-1]


def ranks_of(job, ranks):
    """Process ids by rank, as -v tells them."""
    found = {}
    while len(found) < ranks:
        match = read_until(job.stderr, r"started rank (\d+) \(pid (\d+)\)")
        found[int(match[1])] = int(match[2])
    return found


class Restarts(unittest.TestCase):
    def test_a_rank_that_dies_is_started_again_and_the_sum_is_right(self):
        for victim in 0, 2:
            for env in {}, {"TUTTI_FORCE_REMOTE": "1"}:
                with self.subTest(victim=victim, env=env):
                    status, out, errors = run("-n", "4", "--restarts", "1", "--", PROGRAM, "1000", str(victim), "300", env=env)
                    self.assertEqual(status, 0, errors)
                    self.assertEqual(last_line(out), "[0] 4 ranks, generation 2, 1000 steps, sum 10000\n")
                    self.assertRegex(errors, rf"rank {victim} \(pid \d+\): killed by signal 9 \(Killed\); "
                                             r"it is started again \(1 of 1 restarts\)")

    def test_a_rank_that_refuses_its_arguments_is_not_started_again(self):
        status, _, errors = run("-n", "2", "--restarts", "5", "--", "sh", "-c", "exit 2")
        self.assertEqual(status, 2, errors)
        self.assertRegex(errors, r"rank \d \(pid \d+\): exited with status 2; with this status it refuses its arguments, so it "
                                 r"is not started again")
        self.assertNotIn("it is started again", errors)

    def test_the_others_go_on_without_one_that_refuses_its_arguments(self):
        refuses = f"[ $TUTTI_RANK = 1 ] && exit 2; exec {PROGRAM} 200"
        status, out, errors = run("-n", "3", "--restarts", "5", "--min-ranks", "2", "--", "sh", "-c", refuses)
        self.assertEqual(status, 0, errors)
        self.assertIn("the job goes on without it, since it would refuse its arguments again", errors)
        self.assertIn("2 ranks, generation 1, 200 steps", last_line(out))

    def test_the_job_goes_on_without_it(self):
        status, out, errors = run("-n", "4", "--min-ranks", "3", "--", PROGRAM, "1000", "0", "300")
        self.assertEqual(status, 0, errors)
        self.assertEqual(last_line(out), f"[1] 3 ranks, generation 2, 1000 steps, sum {300 * 10 + 700 * 6}\n")
        self.assertIn("the job goes on without it", errors)

    def test_a_failure_too_many_ends_the_job_at_once(self):
        begin = time.monotonic()
        status, _, errors = run("-n", "3", "--min-ranks", "3", "--grace", "30", "--", PROGRAM, "1000", "1", "300")
        self.assertEqual(status, 128 + signal.SIGKILL, errors)
        self.assertLess(time.monotonic() - begin, 20)
        self.assertIn("rank 1 has failed, and fewer ranks than 3 remain (--min-ranks)", errors)

    def test_many_deaths_of_all_ranks_lose_no_step(self):
        job = start("-n", "4", "--restarts", "12", "-v", "--", PROGRAM, MANY)
        pids = ranks_of(job, 4)
        for victim in (3, 0, 1, 0, 2, 3):
            await_generation(job, 1)  # the next one
            os.kill(pids[victim], signal.SIGKILL)
            again = read_until(job.stderr, rf"started rank {victim} \(pid (\d+)\)")
            pids[victim] = int(again[1])
        await_generation(job, 1)
        job.send_signal(signal.SIGTERM)
        out, errors = job.communicate(timeout=LIMIT)
        self.assertEqual(job.returncode, 0, errors)
        generation, steps, total = map(int, re.search(r"4 ranks, generation (\d+), (\d+) steps, sum (\d+)", out).groups())
        self.assertGreater(generation, 3)
        self.assertEqual(total, 10 * steps)

    def test_ranks_that_will_be_started_again_count_for_min_ranks(self):
        job = start("-n", "4", "--restarts", "2", "--min-ranks", "3", "-v", "--", PROGRAM, MANY)
        pids = ranks_of(job, 4)
        await_generation(job, 1)
        job.send_signal(signal.SIGSTOP)  # it learns of the three deaths together
        for victim in 1, 2, 3:
            os.kill(pids[victim], signal.SIGKILL)
        for victim in 1, 2, 3:
            while ") Z " not in pathlib.Path(f"/proc/{pids[victim]}/stat").read_text():
                time.sleep(0.001)
        job.send_signal(signal.SIGCONT)
        ranks_of(job, 2)  # two of them are started again
        await_generation(job, 2)
        job.send_signal(signal.SIGTERM)
        out, errors = job.communicate(timeout=LIMIT)
        self.assertEqual(job.returncode, 0, errors)
        self.assertRegex(out, r"3 ranks, generation \d+, \d+ steps")

    def test_a_stopped_rank_is_replaced(self):
        job = start("-n", "3", "--restarts", "1", "-v", "--", PROGRAM, MANY, env={"TUTTI_HEARTBEAT_TIMEOUT": "2"})
        pids = ranks_of(job, 3)
        await_generation(job, 1)
        os.kill(pids[1], signal.SIGSTOP)
        read_until(job.stderr, r"rank 1 \(pid \d+\) does not answer, and is killed")
        read_until(job.stderr, r"it is started again \(1 of 1 restarts\)")
        await_generation(job, 2)
        job.send_signal(signal.SIGTERM)
        out, errors = job.communicate(timeout=LIMIT)
        self.assertEqual(job.returncode, 0, errors)
        self.assertRegex(out, r"3 ranks, generation 2, \d+ steps")


    def test_a_rank_that_starts_slowly_is_waited_for(self):
        slowly = f"[ $TUTTI_RESTART = 0 ] || sleep 4; exec {PROGRAM} 1000 1 300"
        status, out, errors = run("-n", "3", "--restarts", "1", "--", "sh", "-c", slowly, env={"TUTTI_HEARTBEAT_TIMEOUT": "1"})
        self.assertEqual(status, 0, errors)
        self.assertEqual(last_line(out), "[0] 3 ranks, generation 2, 1000 steps, sum 6000\n")

    def test_a_rank_that_fails_again_and_again_at_its_start_is_waited_for(self):
        # The launcher pauses for 0.5, 1, 2 and 4 s, and the other ranks' waits end by their time-out meanwhile.
        often = f"case $TUTTI_RESTART in [1234]) exit 3;; esac; exec {PROGRAM} 1000 1 300"
        status, out, errors = run("-n", "3", "--restarts", "6", "--", "sh", "-c", often,
                                  env={"TUTTI_TIMEOUT": "2", "TUTTI_INIT_TIMEOUT": "2"})
        self.assertEqual(status, 0, errors)
        self.assertRegex(last_line(out), r"\[0\] 3 ranks, generation \d+, 1000 steps, sum 6000\n")
        self.assertIn("waits to make a communicator", errors)

    def test_a_rank_that_works_on_alone_is_left_alone(self):
        alone = f"{PROGRAM} 200; sleep 3; echo done"
        status, out, errors = run("-n", "2", "--restarts", "1", "--", "sh", "-c", alone, env={"TUTTI_HEARTBEAT_TIMEOUT": "1"})
        self.assertEqual(status, 0, errors)
        self.assertEqual(out.count("done"), 2)
        self.assertNotIn("killed", errors)

    def test_a_job_that_has_ended_well_is_not_begun_anew(self):
        begin = f"{PROGRAM} 200 || exit 1; [ $TUTTI_RANK = 0 ] && exit 0; sleep 0.5; exit 3"
        status, out, errors = run("-n", "2", "--restarts", "5", "--", "sh", "-c", begin)
        self.assertEqual(status, 3, errors)
        self.assertEqual(out.count("steps, sum"), 1)

    def test_a_launcher_that_was_stopped_finds_its_ranks_again(self):
        job = start("-n", "3", "--restarts", "1", "-v", "--", PROGRAM, MANY, env={"TUTTI_HEARTBEAT_TIMEOUT": "1"})
        ranks_of(job, 3)
        await_generation(job, 1)
        job.send_signal(signal.SIGSTOP)
        time.sleep(3)  # for longer than the heartbeat …
        job.send_signal(signal.SIGCONT)
        time.sleep(3)  # … and for as long as it would take to declare its ranks lost
        job.send_signal(signal.SIGTERM)
        out, errors = job.communicate(timeout=LIMIT)
        self.assertEqual(job.returncode, 0, errors)
        self.assertIn("3 ranks, generation 1", out)

    def test_a_program_that_is_gone_ends_the_job_with_all_its_ranks(self):
        folder = tempfile.mkdtemp()
        copy = os.path.join(folder, "program")
        shutil.copy(PROGRAM, copy)
        job = start("-n", "3", "--restarts", "2", "--grace", "1", "-v", "--", copy, MANY)
        pids = ranks_of(job, 3)
        await_generation(job, 1)
        shutil.rmtree(folder)
        os.kill(pids[2], signal.SIGKILL)
        _, errors = job.communicate(timeout=LIMIT)
        self.assertNotEqual(job.returncode, 0)
        self.assertIn("rank 2 cannot be started again", errors)
        self.assertFalse([pid for pid in pids.values() if os.path.exists(f"/proc/{pid}")])


class Notice(unittest.TestCase):
    def test_ranks_end_by_themselves_at_the_same_step(self):
        job = start("-n", "3", "--restarts", "1", "-v", "--", PROGRAM, MANY)
        ranks_of(job, 3)
        await_generation(job, 1)
        job.send_signal(signal.SIGTERM)
        out, errors = job.communicate(timeout=LIMIT)
        self.assertEqual(job.returncode, 0, errors)
        self.assertIn("SIGTERM: the ranks have 30 s to end by themselves", errors)
        steps, total = re.search(r"(\d+) steps, sum (\d+)", out).groups()
        self.assertEqual(int(total), 6 * int(steps))

    def test_one_rank_that_gets_it_stops_all(self):
        job = start("-n", "3", "--restarts", "1", "-v", "--", PROGRAM, MANY)
        pids = ranks_of(job, 3)
        await_generation(job, 1)
        os.kill(pids[2], signal.SIGTERM)
        out, errors = job.communicate(timeout=LIMIT)
        self.assertEqual(job.returncode, 0, errors)
        steps, total = re.search(r"3 ranks, generation 1, (\d+) steps, sum (\d+)", out).groups()
        self.assertEqual(int(total), 6 * int(steps))

    def test_ranks_that_do_not_listen_are_ended(self):
        job = start("-n", "2", "--min-ranks", "1", "--notice", "0.3", "-v", "--", "sleep", "1000")
        ranks_of(job, 2)
        job.send_signal(signal.SIGTERM)
        _, errors = job.communicate(timeout=LIMIT)
        self.assertEqual(job.returncode, 128 + signal.SIGTERM, errors)
        self.assertRegex(errors, r"0\.3 s later still running, and ended now: rank 0, 1 \(--notice gives more time\)")


class Joining(unittest.TestCase):
    def job_with_environment(self, *arguments):
        """A job, and the environment by which further processes join it."""
        folder = tempfile.mkdtemp()
        job = start(*arguments, "-v", "--", "sh", "-c", f"env > {folder}/$TUTTI_RANK; exec {PROGRAM} {MANY}")
        self.addCleanup(shutil.rmtree, folder, True)
        ranks_of(job, 2)
        await_generation(job, 1)
        with open(f"{folder}/0") as file:
            known = dict(line.rstrip("\n").split("=", 1) for line in file if line.startswith("TUTTI_"))
        return job, {name: known[name] for name in ("TUTTI_JOB", "TUTTI_KEY", "TUTTI_JOB_SERVER")}

    def join(self, environment):
        return subprocess.run([PROGRAM, MANY], env={**os.environ, **environment}, capture_output=True, text=True, timeout=LIMIT)

    def test_a_further_process_becomes_the_next_rank(self):
        job, environment = self.job_with_environment("-n", "2", "--restarts", "1")
        guest = subprocess.Popen([PROGRAM, MANY], env={**os.environ, **environment}, text=True, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
        self.assertIn("2 ranks, generation 1", read_until(job.stdout, "steps, sum").string)
        await_generation(job, 2)
        job.send_signal(signal.SIGTERM)
        out, errors = job.communicate(timeout=LIMIT)
        self.assertEqual(job.returncode, 0, errors)
        self.assertIn("3 ranks, generation 2", out)
        self.assertEqual(guest.wait(LIMIT), 0, guest.stderr.read())

    def test_those_that_do_not_belong_to_the_job_are_refused(self):
        job, environment = self.job_with_environment("-n", "2", "--restarts", "1")
        for name, value, why in (
                ("TUTTI_KEY", "0" * 64, "does not know this key"),
                ("TUTTI_JOB", "another", "does not know this key"),
                ("TUTTI_RANK", "1", "claims its place too"),
                ("TUTTI_RANK", "7", "the launcher has started 2"),
                ("TUTTI_JOB_SERVER", "nonsense", "is no address"),
                ("TUTTI_JOB_SERVER", "none@127.0.0.1@1", "the launcher of the job cannot be reached")):
            done = self.join({**environment, "TUTTI_SIZE": "9", name: value} if name == "TUTTI_RANK" else {**environment, name: value})
            self.assertEqual(done.returncode, 1)
            self.assertIn(why, done.stderr)
        job.send_signal(signal.SIGTERM)
        out, errors = job.communicate(timeout=LIMIT)
        self.assertEqual(job.returncode, 0, errors)
        self.assertIn("2 ranks, generation 1", out)

    def test_a_process_whose_launcher_is_gone_hears_of_it(self):
        job, environment = self.job_with_environment("-n", "2", "--restarts", "1")
        job.kill()
        job.communicate(timeout=LIMIT)
        while (done := self.join(environment)).returncode == -signal.SIGKILL:
            pass  # the guardian ends what is left of the job
        self.assertEqual(done.returncode, 1)
        self.assertIn("the launcher of the job cannot be reached", done.stderr)


class Words(unittest.TestCase):
    def test_that_contradict_each_other_are_refused(self):
        for words, why in ((["--restarts", "1", "--keep-going", "--", "true"], "without --keep-going"),
                           (["--restarts", "-1", "--", "true"], "--restarts"),
                           (["--min-ranks", "0", "--", "true"], "--min-ranks")):
            status, _, errors = run("-n", "2", *words)
            self.assertNotEqual(status, 0)
            self.assertIn(why, errors)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
