"""Real launchers start four ranks, which find each other by the launcher's environment alone.

    launchers_test.py TUTTI [unittest's arguments]

What is missing is installed by apt where that is permitted (root, Debian); a launcher that cannot be had is skipped,
with the reason. Servers (munged, slurmctld, slurmd) are started for their test and ended with it.
"""

import glob
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from packages import need
from slurm import Slurm, free_port, tail_of

TUTTI = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
LIMIT = 120  # seconds until a hanging program fails
RANKS = 4
PERF = [TUTTI, "perf", "all_reduce", "-b", "8", "-e", "64K", "-f", "64", "-n", "3", "-w", "1"]


class Launcher(unittest.TestCase):
    def run_ranks(self, command, launcher, **variables):
        """Runs tutti under `command`. Rank 0 must report correct sums of all ranks."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("TUTTI_", "SLURM_"))}
        done = subprocess.run([*command, *PERF], capture_output=True, text=True, timeout=LIMIT,
                              env={**clean, "TUTTI_LOG": "info", **variables})
        text = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, text)
        self.assertIn(f"all_reduce, {RANKS} ranks", text)
        self.assertIn("Out of bounds values : 0 OK", text)
        self.assertEqual(text.count("Out of bounds values"), 1, f"the ranks did not find each other:\n{text}")
        print(f"{launcher}: {RANKS} ranks, sums correct", flush=True)


class OpenMpi(Launcher):
    def test_mpirun(self):
        mpirun = need("mpirun.openmpi", "openmpi-bin")
        self.run_ranks([mpirun, "--allow-run-as-root", "--oversubscribe", "-n", str(RANKS)], "mpirun (Open MPI)")


class Mpich(Launcher):
    def test_hydra(self):
        self.run_ranks([need("mpiexec.hydra", "mpich"), "-n", str(RANKS)], "mpiexec.hydra (MPICH)")


class Torchrun(Launcher):
    def test_torchrun(self):
        found = os.environ.get("TORCHRUN") or shutil.which("torchrun") or \
            next(iter(glob.glob(os.path.expanduser("~/.cache/tutti-torch/bin/torchrun"))), None)
        if not found:
            raise unittest.SkipTest("torchrun is missing: pip install torch, or name it in TORCHRUN")
        # Not --standalone: that resolves the host's own name, which a container may not know.
        self.run_ranks([found, "--no-python", "--nnodes", "1", "--nproc-per-node", str(RANKS), "--master-addr",
                        "127.0.0.1", "--master-port", str(free_port())], "torchrun", OMP_NUM_THREADS="1")


class Ssh(Launcher):
    """`tutti run --hosts` through a real sshd, on a port of its own: two hosts by name, both of them this machine."""

    def test_two_hosts(self):
        sshd, ssh, keygen = (need(program, package) for program, package in
                             (("sshd", "openssh-server"), ("ssh", "openssh-client"), ("ssh-keygen", "openssh-client")))
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)  # it wants that of root
        with tempfile.TemporaryDirectory() as folder:
            for name in "host", "user":
                subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{name}"], check=True)
            port = free_port()
            with open(f"{folder}/sshd_config", "w") as file:
                file.write(f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\nUsePAM no\n"
                           f"AuthorizedKeysFile {folder}/user.pub\nStrictModes no\nPermitRootLogin yes\n")
            with open(f"{folder}/ssh_config", "w") as file:
                file.write(f"Host one two\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {folder}/user\n"
                           f"  UserKnownHostsFile {folder}/known\n  StrictHostKeyChecking accept-new\n  BatchMode yes\n")
            with open(f"{folder}/sshd.log", "w") as log:
                server = subprocess.Popen([sshd, "-D", "-e", "-f", f"{folder}/sshd_config"], stderr=log)
            try:
                self.await_listener(port)
                self.run_ranks([TUTTI, "run", "--no-prefix", "--launcher", f"{ssh} -F {folder}/ssh_config {{host}}",
                                "--hosts", "one:2,two:2", "--"], "tutti run over ssh", TUTTI_ROOT_ADDR="127.0.0.1")
            except AssertionError as error:
                raise AssertionError(f"{error}\nsshd: {tail_of(folder + '/sshd.log')}") from None
            finally:
                server.kill()
                server.wait()


    def await_listener(self, port):
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            with socket.socket() as trial:
                if trial.connect_ex(("127.0.0.1", port)) == 0:
                    return
        self.fail("sshd does not listen")


class SlurmSrun(Launcher):
    """A cluster of one host."""

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("slurmd needs root")
        folder = tempfile.mkdtemp(prefix="tutti-slurm-")
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        cls.slurm = Slurm(folder, {socket.gethostname().split(".")[0]: "127.0.0.1"}, RANKS)
        cls.addClassCleanup(cls.slurm.stop)

    def offers(self, mpi):
        """Can this Slurm start ranks with that interface? Debian's wants a file of libpmix-dev for PMIx."""
        for package in None, "libpmix-dev":
            if package:
                subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", package], capture_output=True,
                               env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
            done = subprocess.run([self.slurm.srun, f"--mpi={mpi}", "true"], capture_output=True, text=True,
                                  env=self.slurm.environment())
            if done.returncode == 0:
                return True
        print(f"srun --mpi={mpi}: skipped: {done.stderr.splitlines()[0]}", flush=True)
        return False

    def test_srun(self):
        for mpi in "none", "pmi2", "pmix":
            if mpi != "none" and not self.offers(mpi):
                continue
            with self.subTest(mpi=mpi):
                self.run_ranks([self.slurm.srun, f"--mpi={mpi}", "-n", str(RANKS)], f"srun --mpi={mpi}",
                               SLURM_CONF=self.slurm.conf)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
