"""tutti run --hosts: the ranks of other hosts, which a fake ssh starts here."""

import os
import re
import signal
import subprocess
import tempfile
import unittest

from support import WAIT_FOREVER, gone, main, start, tutti


FAKE_SSH = r"""#!/bin/bash
# A fake ssh: "host" is this machine with an empty environment and a session of its own.
while [[ $1 == -* ]]; do
  case $1 in --) shift; break;; -o) shift 2;; *) shift;; esac
done
echo "$1" >>"${0%/*}/hosts"
[[ $1 == unreachable ]] && { echo "ssh: no route to host" >&2; exit 255; }
shift
env -i PATH="$PATH" HOME=/ setsid --wait sh -c "$*"
exit $?
"""


class OtherHosts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        path = self.folder.name + "/ssh"
        with open(path, "w") as script:
            script.write(FAKE_SSH)
        os.chmod(path, 0o755)
        self.env = {"PATH": self.folder.name + ":" + os.environ["PATH"]}

    def hosts(self):
        with open(self.folder.name + "/hosts") as list:
            return sorted(list.read().split())

    def test_get_their_ranks_and_all_variables(self):
        done = tutti("run", "--hosts", "alpha:2,beta", "--port", "5000", "-x", "COLOUR=deep red", "--",
                     "sh", "-c", 'echo "$TUTTI_RANK $TUTTI_SIZE $TUTTI_LOCAL_RANK $TUTTI_LOCAL_SIZE $TUTTI_ROOT_ADDR '
                     '$TUTTI_PORT $COLOUR ${#TUTTI_KEY} $1"', "sh", "it's \"quoted\"",
                     env={**self.env, "TUTTI_ROOT_ADDR": "alpha"})
        self.assertEqual(done.returncode, 0, done.stderr)
        # A connection for each rank, and perhaps one more of a host, for signals.
        self.assertEqual(set(self.hosts()), {"alpha", "beta"})
        self.assertGreaterEqual(self.hosts().count("alpha"), 2)
        where = ["0 2", "1 2", "0 1"]
        self.assertEqual(sorted(done.stdout.splitlines()),
                         [f'[{r}] {r} 3 {where[r]} alpha 5000 deep red 64 it\'s "quoted"' for r in range(3)])

    def test_that_no_name_service_knows_are_asked_for_their_addresses(self):
        done = tutti("run", "--no-prefix", "--hosts", "alpha,beta", "--", "sh", "-c", "echo $TUTTI_ROOT_ADDR", env=self.env)
        addresses = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual(done.stdout, 2 * (",".join(addresses) + "\n"), done.stderr)

    def test_variables_of_the_command_line_are_for_ranks_of_this_host_too(self):
        done = tutti("run", "--hosts", "localhost,alpha", "-x", "COLOUR=red", "--", "sh", "-c", "echo $COLOUR", env=self.env)
        self.assertEqual(sorted(done.stdout.splitlines()), ["[0] red", "[1] red"], done.stderr)

    def test_keep_the_secret_off_the_command_line(self):
        done = tutti("run", "--hosts", "alpha", "--", "sh", "-c",
                     'cat /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" "\\n" | grep -c "$TUTTI_KEY"; true', env=self.env)
        # grep's own command line contains it.
        self.assertLessEqual(int(done.stdout.split()[1]), 1, done.stdout)

    def test_only_rank_0_gets_standard_input(self):
        done = tutti("run", "--hosts", "alpha,beta", "--", "cat", stdin="x" * 200000 + "\nend\n", env=self.env)
        # Such a long line is forwarded in pieces.
        lines = done.stdout.splitlines()
        self.assertTrue(all(re.fullmatch(r"\[0\] (x+|end)", line) for line in lines), lines)
        self.assertEqual(done.stdout.count("x"), 200000)
        self.assertEqual(lines[-1], "[0] end")

    def test_failures_are_reported_with_the_host(self):
        done = tutti("run", "--hosts", "alpha,beta", "--", "sh", "-c", "[ $TUTTI_RANK = 0 ] || exit 9", env=self.env)
        self.assertEqual(done.returncode, 9)
        self.assertRegex(done.stderr, r"rank 1 \(pid \d+ on host beta\): exited with status 9")

    def test_unreachable_ones_are_named(self):
        done = tutti("run", "--hosts", "unreachable", "--", "true", env=self.env)
        self.assertEqual(done.returncode, 255)
        self.assertIn("[0] ssh: no route to host\n", done.stderr)
        self.assertRegex(done.stderr, r"rank 0 \(on host unreachable\): ssh could not start it")

    def test_get_signals(self):
        job = start("run", "--hosts", "alpha,beta", "--", "sh", "-c", WAIT_FOREVER, env={**os.environ, **self.env})
        pids = [int(job.stdout.readline().split()[1]) for _ in range(2)]
        job.send_signal(signal.SIGTERM)
        job.communicate(timeout=60)
        self.assertEqual(job.returncode, 128 + signal.SIGTERM)
        for pid in pids:
            self.assertTrue(gone(pid))

    def test_end_their_ranks_when_the_launcher_is_killed(self):
        job = start("run", "--hosts", "alpha,beta", "--grace", "0.1", "--", "sh", "-c", WAIT_FOREVER,
                    env={**os.environ, **self.env})
        pids = [int(job.stdout.readline().split()[1]) for _ in range(2)]
        job.kill()
        job.communicate(timeout=60)
        for pid in pids:
            self.assertTrue(gone(pid))


if __name__ == "__main__":
    main()
