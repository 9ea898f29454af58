"""A cluster of Slurm for tests, all of whose files lie in one folder."""

import glob
import os
import socket
import subprocess
import time

from packages import need


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def tail_of(path):
    try:
        with open(path, errors="replace") as file:
            return "".join(file.readlines()[-20:])
    except OSError:
        return ""


class Slurm:
    """munged, slurmctld, and a slurmd for each of `nodes`, a dictionary of names and addresses. Nodes whose name is in
    `within` get the words there before their command. Raises SkipTest where Slurm cannot be had, AssertionError where it
    does not start."""

    def __init__(self, folder, nodes, cpus, within=None, limit=60):
        self.folder, self.nodes, self.cpus, self.limit = folder, nodes, cpus, limit
        self.within = within or {}
        self.servers = []
        programs = [need(program, package) for program, package in
                    (("munged", "munge"), ("slurmctld", "slurmctld"), ("slurmd", "slurmd"), ("srun", "slurm-client"))]
        munged, slurmctld, slurmd, self.srun = programs
        self.configure()
        try:
            socket_of_munge = f"{folder}/munge.socket"
            self.start([munged, "--foreground", "--force", f"--socket={socket_of_munge}", f"--key-file={folder}/key",
                        f"--log-file={folder}/munged.log", f"--pid-file={folder}/munged.pid",
                        f"--seed-file={folder}/munged.seed"])
            self.wait("munged", lambda: os.path.exists(socket_of_munge))
            first = next(iter(nodes))
            self.start([*self.within.get(first, []), slurmctld, "-D", "-c", "-f", self.conf])
            for node in nodes:
                self.start([*self.within.get(node, []), slurmd, "-D", "-c", "-N", node, "-f", self.conf])
            self.wait("idle nodes", lambda: self.ask("sinfo", "-h", "-o", "%t %D").split() == ["idle", str(len(nodes))])
        except BaseException:
            self.stop()
            raise

    def configure(self):
        self.conf = f"{self.folder}/slurm.conf"
        with open(f"{self.folder}/key", "wb") as file:
            file.write(os.urandom(128))
        os.chmod(f"{self.folder}/key", 0o400)
        os.chmod(self.folder, 0o755)  # munged wants no folder that others may write to
        for name in "state", *(f"spool-{node}" for node in self.nodes):
            os.mkdir(f"{self.folder}/{name}")
        first, address = next(iter(self.nodes.items()))
        nodes = "\n".join(f"NodeName={node} NodeAddr={address} Port={free_port()} CPUs={self.cpus} State=UNKNOWN"
                          for node, address in self.nodes.items())
        with open(self.conf, "w") as file:
            file.write(f"""
ClusterName=tutti
SlurmctldHost={first}({address})
SlurmctldPort={free_port()}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge.socket
CredType=cred/munge
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool-%n
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd-%n.pid
SlurmctldLogFile={self.folder}/slurmctld.log
SlurmdLogFile={self.folder}/slurmd-%n.log
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
{nodes}
PartitionName=all Nodes={",".join(self.nodes)} Default=YES MaxTime=INFINITE State=UP
""")

    def start(self, command):
        log = open(f"{self.folder}/{len(self.servers)}-{os.path.basename(command[-1])}.out", "w")
        with log:
            self.servers.append(subprocess.Popen(command, stdout=log, stderr=log, env=self.environment()))

    def stop(self):
        for server in reversed(self.servers):
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()

    def environment(self):
        return {**os.environ, "SLURM_CONF": self.conf}

    def ask(self, *command):
        first = next(iter(self.nodes))
        return subprocess.run([*self.within.get(first, []), *command], capture_output=True, text=True,
                              env=self.environment()).stdout

    def wait(self, what, ready):
        end = time.monotonic() + self.limit
        while not ready():
            ended = [server.args for server in self.servers if server.poll() is not None]
            if ended or time.monotonic() > end:
                logs = "\n".join(f"{path}:\n{tail_of(path)}" for pattern in ("*.log", "*.out")
                                 for path in glob.glob(f"{self.folder}/{pattern}"))
                raise AssertionError(f"no {what}; ended: {ended}\n{logs}")
            time.sleep(0.1)
