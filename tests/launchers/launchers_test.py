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

TUTTI = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
LIMIT = 120  # seconds until a hanging program fails
RANKS = 4
PERF = [TUTTI, "perf", "all_reduce", "-b", "8", "-e", "64K", "-f", "64", "-n", "3", "-w", "1"]


def tail_of(path):
    try:
        with open(path, errors="replace") as file:
            return "".join(file.readlines()[-20:])
    except OSError:
        return ""


def need(program, package):
    """The path of a program, installed by apt if it is missing. Skips the test if it cannot be had."""
    if found := shutil.which(program):
        return found
    why = "it can be installed by root only"
    if os.geteuid() == 0 and shutil.which("apt-get"):
        done = subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", package], capture_output=True,
                              text=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
        if found := shutil.which(program):
            return found
        why = f"apt-get install {package}: {done.stderr.strip().splitlines()[-1:]}"
    raise unittest.SkipTest(f"{program} is missing: {why}")


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


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


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


class Slurm(Launcher):
    """A cluster of one host, all of whose files lie in a temporary folder."""

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("slurmd needs root")
        programs = [need(program, package) for program, package in
                    (("munged", "munge"), ("slurmctld", "slurmctld"), ("slurmd", "slurmd"), ("srun", "slurm-client"))]
        cls.srun = programs[3]
        cls.folder = tempfile.mkdtemp(prefix="tutti-slurm-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.servers = []
        cls.addClassCleanup(cls.stop)
        cls.configure()
        munged, slurmctld, slurmd, _ = programs
        socket_of_munge = f"{cls.folder}/munge.socket"
        cls.start([munged, "--foreground", "--force", f"--socket={socket_of_munge}", f"--key-file={cls.folder}/key",
                   f"--log-file={cls.folder}/munged.log", f"--pid-file={cls.folder}/munged.pid",
                   f"--seed-file={cls.folder}/munged.seed"])
        cls.wait("munged", lambda: os.path.exists(socket_of_munge))
        cls.start([slurmctld, "-D", "-c", "-f", cls.conf])
        cls.start([slurmd, "-D", "-c", "-f", cls.conf])
        cls.wait("an idle node", lambda: "idle" in cls.ask("sinfo", "-h", "-o", "%t"))

    @classmethod
    def configure(cls):
        cls.conf = f"{cls.folder}/slurm.conf"
        host = socket.gethostname().split(".")[0]
        with open(f"{cls.folder}/key", "wb") as file:
            file.write(os.urandom(128))
        os.chmod(f"{cls.folder}/key", 0o400)
        os.chmod(cls.folder, 0o755)  # munged wants no folder that others may write to
        for name in "state", "spool":
            os.mkdir(f"{cls.folder}/{name}")
        with open(cls.conf, "w") as file:
            file.write(f"""
ClusterName=tutti
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={cls.folder}/munge.socket
CredType=cred/munge
StateSaveLocation={cls.folder}/state
SlurmdSpoolDir={cls.folder}/spool
SlurmctldPidFile={cls.folder}/slurmctld.pid
SlurmdPidFile={cls.folder}/slurmd.pid
SlurmctldLogFile={cls.folder}/slurmctld.log
SlurmdLogFile={cls.folder}/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={RANKS} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
""")

    @classmethod
    def start(cls, command):
        log = open(f"{cls.folder}/{os.path.basename(command[0])}.out", "w")
        with log:
            cls.servers.append(subprocess.Popen(command, stdout=log, stderr=log, env=cls.environment()))

    @classmethod
    def stop(cls):
        for server in reversed(cls.servers):
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()

    @classmethod
    def environment(cls):
        return {**os.environ, "SLURM_CONF": cls.conf}

    @classmethod
    def ask(cls, *command):
        return subprocess.run(command, capture_output=True, text=True, env=cls.environment()).stdout

    @classmethod
    def wait(cls, what, ready):
        end = time.monotonic() + LIMIT / 2
        while not ready():
            ended = [server.args[0] for server in cls.servers if server.poll() is not None]
            if ended or time.monotonic() > end:
                logs = "\n".join(f"{path}:\n{tail_of(path)}" for pattern in ("*.log", "*.out")
                                 for path in glob.glob(f"{cls.folder}/{pattern}"))
                raise AssertionError(f"no {what}; ended: {ended}\n{logs}")
            time.sleep(0.1)

    def offers(self, mpi):
        """Can this Slurm start ranks with that interface? Debian's wants a file of libpmix-dev for PMIx."""
        for package in None, "libpmix-dev":
            if package:
                subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", package], capture_output=True,
                               env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
            done = subprocess.run([self.srun, f"--mpi={mpi}", "true"], capture_output=True, text=True,
                                  env=self.environment())
            if done.returncode == 0:
                return True
        print(f"srun --mpi={mpi}: skipped: {done.stderr.splitlines()[0]}", flush=True)
        return False

    def test_srun(self):
        for mpi in "none", "pmi2", "pmix":
            if mpi != "none" and not self.offers(mpi):
                continue
            with self.subTest(mpi=mpi):
                self.run_ranks([self.srun, f"--mpi={mpi}", "-n", str(RANKS)], f"srun --mpi={mpi}",
                               SLURM_CONF=self.conf)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
