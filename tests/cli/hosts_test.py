"""Ranks on two hosts, simulated by two network namespaces: keys, interfaces and addresses.

Needs the right to make network namespaces; skipped elsewhere.
"""

import os
import subprocess
import sys
import tempfile
import unittest

from support import LIMIT, TUTTI, main

A, B = "10.78.0.1", "10.78.0.2"
PERF = ["perf", "all_reduce", "-b", "8", "-e", "8", "-n", "1", "-w", "0"]
SECRET = "5ec7e7" * 6
# torchrun's variables for its ranks. All are public: they appear in job scripts, logs and process lists.
PUBLIC = {"WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": A, "MASTER_PORT": "29500",
          "TORCHELASTIC_RUN_ID": "none", "TUTTI_INIT_TIMEOUT": "30"}


class TwoHosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a, cls.b = f"tutti-a{os.getpid()}", f"tutti-b{os.getpid()}"
        cls.addClassCleanup(cls.remove)
        for command in (f"netns add {cls.a}", f"netns add {cls.b}",
                        f"-n {cls.a} link add eth0 type veth peer name eth0 netns {cls.b}",
                        f"-n {cls.a} addr add {A}/24 dev eth0", f"-n {cls.b} addr add {B}/24 dev eth0",
                        f"-n {cls.a} link set eth0 up", f"-n {cls.b} link set eth0 up",
                        f"-n {cls.a} link set lo up", f"-n {cls.b} link set lo up"):
            try:
                done = subprocess.run(["ip", *command.split()], capture_output=True, text=True, check=False)
            except FileNotFoundError:
                raise unittest.SkipTest("there is no ip(8) here") from None
            if done.returncode != 0:
                raise unittest.SkipTest(f"no network namespaces here: {done.stderr.strip()}")

    @classmethod
    def remove(cls):
        for host in cls.a, cls.b:
            subprocess.run(["ip", "netns", "del", host], capture_output=True, check=False)

    def start(self, host, variables, command=None, user=None):
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}
        process = subprocess.Popen(["ip", "netns", "exec", host, *as_user, *(command or [TUTTI, *PERF])],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env={**environment, **variables})
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()

    def ranks(self, variables, second=None, **options):
        """Runs rank 0 in A and rank 1 in B; returns each one's exit status and output."""
        first = self.start(self.a, {**PUBLIC, "RANK": "0", **variables})
        other = self.start(self.b, {**PUBLIC, "RANK": "1", **(variables if second is None else second)}, **options)
        ends = []
        for process in other, first:
            out, error = process.communicate(timeout=LIMIT)
            ends.insert(0, (process.returncode, out + error))
        return ends

    def expect_success(self, ends):
        for status, text in ends:
            self.assertEqual(status, 0, text)

    def store(self):
        """torchrun's store in A; it prints what is stored."""
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_store.py")
        store = self.start(self.a, {}, command=[sys.executable, script, PUBLIC["MASTER_PORT"]])
        self.assertEqual(store.stdout.readline(), "ready\n")
        return store


class Keys(TwoHosts):
    def test_torchruns_store_provides_them(self):
        store = self.store()
        self.expect_success(self.ranks({}))
        store.kill()
        self.assertRegex(store.communicate()[0], r"^tutti/[0-9a-f]{32} [0-9a-f]{64}\n$")

    def test_guessed_keys_are_rejected(self):
        guess = {"TUTTI_INSECURE_KEY": "1", "TUTTI_INIT_TIMEOUT": "5"}
        for secret in {}, {"TUTTI_KEY": SECRET}:
            if not secret:
                self.store()
            (first, first_text), (other, other_text) = self.ranks({**secret, "TUTTI_INIT_TIMEOUT": "8"}, guess,
                                                                  user=65534)
            self.assertNotEqual(other, 0, other_text)
            self.assertIn("does not know this key", other_text)
            self.assertIn("a key made from the job's identity", other_text)
            self.assertNotEqual(first, 0, first_text)
            self.assertIn("timed out waiting for rank 1", first_text)

    def test_given_keys_are_used(self):
        self.expect_success(self.ranks({"TUTTI_KEY": SECRET}))

    def test_guessable_keys_need_the_users_consent(self):
        self.expect_success(self.ranks({"TUTTI_INSECURE_KEY": "1"}))
        for status, text in self.ranks({"TUTTI_INIT_TIMEOUT": "0.5"}):  # there is no store
            self.assertNotEqual(status, 0)
            self.assertIn(f"could not get a key from torchrun's store at {A}:29500", text)
            self.assertIn("set TUTTI_KEY to the same secret on all ranks", text)
            self.assertIn("TUTTI_INSECURE_KEY=1", text)

    def test_ranks_without_a_secret_are_refused_at_once(self):
        slurm = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NODELIST": "a,b", "SLURM_JOB_ID": "1",
                 "SLURM_STEP_ID": "0"}
        rank = self.start(self.a, slurm)
        text = "".join(rank.communicate(timeout=LIMIT))
        self.assertNotEqual(rank.returncode, 0)
        for words in "srun gives them no secret", "TUTTI_KEY", "tutti run", "TUTTI_INSECURE_KEY=1":
            self.assertIn(words, text)


class Interfaces(TwoHosts):
    def test_unknown_ones_are_an_error_that_lists_the_existing_ones(self):
        for ends in self.ranks({"TUTTI_KEY": SECRET}, {"TUTTI_KEY": SECRET, "TUTTI_INTERFACE": "nope0"}), \
                self.ranks({"TUTTI_KEY": SECRET, "TUTTI_INTERFACE": "nope0"}, {"TUTTI_KEY": SECRET}):
            for status, text in ends:
                self.assertNotEqual(status, 0)
                self.assertIn("TUTTI_INTERFACE='nope0' matches no network interface", text)
                self.assertIn("there are: eth0, lo", text)

    def test_loopback_only_is_explained_on_every_rank(self):
        lo = {"TUTTI_KEY": SECRET, "TUTTI_INTERFACE": "lo"}
        for ends in self.ranks(lo), self.ranks(lo, {"TUTTI_KEY": SECRET}), self.ranks({"TUTTI_KEY": SECRET}, lo):
            for status, text in ends:
                self.assertNotEqual(status, 0)
                self.assertIn("only its loopback address", text)
                self.assertIn("TUTTI_INTERFACE", text)
                self.assertNotIn("process has ended", text)


# A fake ssh: the host is namespace B.
FAKE_SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift 2
exec ip netns exec "$HOST_B" env -i PATH="$PATH" HOME=/ setsid --wait sh -c "$*"
"""


class Launched(TwoHosts):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        with open(folder.name + "/ssh", "w") as script:
            script.write(FAKE_SSH)
        os.chmod(folder.name + "/ssh", 0o755)
        self.variables = {"PATH": f"{folder.name}:{os.environ['PATH']}", "HOST_B": self.b, "TUTTI_INIT_TIMEOUT": "10"}

    def run_on_both(self, variables, *program):
        job = self.start(self.a, {**self.variables, **variables},
                         [TUTTI, "run", "--hosts", f"localhost,{B}", "--", *(program or [TUTTI, *PERF])])
        out, error = job.communicate(timeout=LIMIT)
        return job.returncode, out + error

    def test_other_hosts_get_a_reachable_address(self):
        status, text = self.run_on_both({}, "sh", "-c", "echo $TUTTI_ROOT_ADDR")
        self.assertEqual((status, sorted(text.splitlines())), (0, [f"[0] {A}", f"[1] {A}"]))
        status, text = self.run_on_both({})
        self.assertEqual(status, 0, text)

    def test_an_exported_address_is_used(self):
        status, text = self.run_on_both({"TUTTI_ROOT_ADDR": "mine", "TUTTI_PORT": "4711"}, "sh", "-c",
                                        "echo $TUTTI_ROOT_ADDR $TUTTI_PORT")
        self.assertEqual((status, sorted(text.splitlines())), (0, ["[0] mine 4711", "[1] mine 4711"]))


if __name__ == "__main__":
    main()
