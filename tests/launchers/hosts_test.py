"""Every command of docs/hosts.md, typed on two hosts with sshd: network namespaces named a and b.

    hosts_test.py TUTTI [unittest's arguments]

It starts itself again in namespaces of its own for mounts and processes: what it writes to /etc/hosts, ~/.ssh and
/run/netns exists there alone, and all servers end with it.
"""

import os
import pathlib
import pwd
import re
import subprocess
import sys
import tempfile
import time
import unittest

from packages import need
from slurm import Slurm, tail_of

TUTTI = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else ""
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/hosts.md"
LIMIT = 120  # seconds until a hanging command fails
ADDRESSES = {"a": "10.0.0.1", "b": "10.0.0.2"}
# Stands for the user's program: all ranks meet, and every sum is checked.
SUM = f"""#!/bin/sh
exec {TUTTI} perf all_reduce -b 8 -e 64K -f 64 -n 2 -w 1 "$@"
"""
HOME = pwd.getpwuid(os.geteuid()).pw_dir  # ssh goes by that, not by the variable
MARK = "TUTTI_TEST_OWN_NAMESPACES"


def blocks():
    """[(section, commands)] of the page."""
    found = []
    for section in re.split(r"^## ", PAGE.read_text(), flags=re.M)[1:]:
        title = section.partition("\n")[0]
        found += [(title, block) for block in re.findall(r"^```sh\n(.*?)^```", section, re.M | re.S)]
    return found


class TwoHosts(unittest.TestCase):
    """a and b, joined by veth, as the page's last section makes them; an sshd on each."""

    @classmethod
    def setUpClass(cls):
        cls.sshd, keygen = need("sshd", "openssh-server"), need("ssh-keygen", "openssh-client")
        need("ip", "iproute2")
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = folder = temporary.name
        os.chmod(folder, 0o755)
        cls.work = f"{folder}/work"
        os.mkdir(cls.work)
        cls.write("work/sum", SUM)
        os.chmod(f"{cls.work}/sum", 0o755)
        cls.write("hosts", "127.0.0.1 localhost\n" + "".join(f"{ip} {name}\n" for name, ip in ADDRESSES.items()))
        cls.mount("--bind", f"{folder}/hosts", "/etc/hosts")
        for place in "/run/netns", "/run/sshd", f"{HOME}/.ssh":
            os.makedirs(place, exist_ok=True)
            cls.mount("-t", "tmpfs", "-o", "mode=755", "none", place)
        for name in "host", "user":
            subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{name}"], check=True)
        key = pathlib.Path(f"{folder}/host.pub").read_text()
        pathlib.Path(f"{HOME}/.ssh/known_hosts").write_text("".join(f"{name} {key}" for name in ADDRESSES))
        pathlib.Path(f"{HOME}/.ssh/id_ed25519").write_bytes(pathlib.Path(f"{folder}/user").read_bytes())
        os.chmod(f"{HOME}/.ssh/id_ed25519", 0o600)
        pathlib.Path(f"{cls.work}/key").write_bytes(pathlib.Path(f"{folder}/user").read_bytes())
        os.chmod(f"{cls.work}/key", 0o600)
        cls.write("sshd_config", f"HostKey {folder}/host\nPidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin yes\n"
                                 f"AuthorizedKeysFile {folder}/user.pub\nSetEnv PATH={cls.path()}\n")
        cls.make_hosts()
        cls.servers = []
        cls.addClassCleanup(lambda: [server.kill() or server.wait() for server in cls.servers])
        for host in ADDRESSES:
            cls.start_sshd(host)

    @classmethod
    def write(cls, name, text):
        pathlib.Path(f"{cls.folder}/{name}").write_text(text)

    @classmethod
    def mount(cls, *words):
        subprocess.run(["mount", *words], check=True)
        cls.addClassCleanup(subprocess.run, ["umount", "--recursive", "--lazy", words[-1]], check=False)

    @staticmethod
    def path():
        return f"{os.path.dirname(TUTTI)}:{os.environ['PATH']}"

    @classmethod
    def make_hosts(cls):
        script = next(block for title, block in blocks() if title == "Two hosts on one machine")
        setup = "\n".join(line for line in script.splitlines() if not line.startswith("tutti"))
        done = subprocess.run(["bash", "-e", "-c", setup], capture_output=True, text=True)
        if done.returncode != 0:
            raise unittest.SkipTest(f"no network namespaces here: {done.stderr.strip()}")

    @classmethod
    def on(cls, host):
        """The words that run a command there, with the host's own name."""
        return ["ip", "netns", "exec", host, "unshare", "--uts", "sh", "-c", f'hostname {host}; exec "$@"', "sh"]

    @classmethod
    def start_sshd(cls, host):
        with open(f"{cls.folder}/sshd-{host}.log", "w") as log:
            cls.servers.append(subprocess.Popen([*cls.on(host), cls.sshd, "-D", "-e", "-f", f"{cls.folder}/sshd_config"],
                                                stderr=log, start_new_session=True))
        end = time.monotonic() + LIMIT
        while subprocess.run([*cls.on("a"), "ssh", "-o", "BatchMode=yes", host, "true"], capture_output=True).returncode:
            if time.monotonic() > end:
                raise AssertionError(f"sshd of {host}: {tail_of(f'{cls.folder}/sshd-{host}.log')}")

    @classmethod
    def environment(cls, **more):
        return {"HOME": HOME, "PATH": cls.path(), "LANG": "C.UTF-8", "TERM": "xterm", **more}

    def typed(self, script, host="a", **more):
        """Runs a script on `host` as somebody would type it."""
        return subprocess.run([*self.on(host), "bash", "-e", "-c", script], cwd=self.work, capture_output=True, text=True,
                              timeout=LIMIT, stdin=subprocess.DEVNULL, env=self.environment(**more))

    def passed(self, script, **more):
        done = self.typed(script, **more)
        self.assertEqual(done.returncode, 0, f"{script}\n{done.stdout}{done.stderr}")
        return done.stdout


class Page(TwoHosts):
    def run_section(self, title, **more):
        """The output of the section's blocks. Where the program reports sums, they must be right."""
        output = ""
        for section, block in blocks():
            if section == title:
                output += self.passed(block, **more)
        self.assertNotRegex(output, r"Out of bounds values : [1-9]")
        return output

    def test_with_ssh(self):
        text = self.run_section("With ssh")
        self.assertEqual(text.count("Out of bounds values : 0 OK"), 5)
        self.assertIn("4 ranks", text)
        self.assertIn("2 hosts see each other", text)

    def test_a_host_file(self):
        text = self.run_section("A host file")
        self.assertIn("4 ranks", text)
        self.assertIn("3 ranks", text)

    def test_ports_and_firewalls(self):
        self.assertIn("4 ranks", self.run_section("Ports and firewalls"))

    def test_choosing_interfaces(self):
        self.assertIn("2 hosts see each other", self.run_section("Choosing interfaces"))

    def test_slurm(self):
        folder = f"{self.folder}/slurm"
        os.mkdir(folder)
        # `ip netns exec` mounts a /sys without control groups, which slurmd wants.
        within = {host: ["nsenter", f"--net=/run/netns/{host}", *self.on(host)[4:]] for host in ADDRESSES}
        slurm = Slurm(folder, ADDRESSES, 2, within, LIMIT)
        self.addCleanup(slurm.stop)
        for section, block in blocks():
            if section == "Slurm":
                self.passed(block, SLURM_CONF=slurm.conf)
        self.assertIn("4 ranks", pathlib.Path(f"{self.work}/job.out").read_text())
        interactive = re.search(r"`(salloc .*?)`", " ".join(PAGE.read_text().split()))[1]
        self.assertIn("4 ranks", self.passed(interactive, SLURM_CONF=slurm.conf))
        by_ssh = "salloc -N 2 sh -c 'env -u SLURM_PROCID tutti run --hosts \"$SLURM_JOB_NODELIST\" -- ./sum'"
        self.assertIn("2 ranks", self.passed(by_ssh, SLURM_CONF=slurm.conf))

    def test_open_mpi(self):
        need("mpirun.openmpi", "openmpi-bin")
        self.passed("printf 'a slots=2\\nb slots=2\\n' > hosts")
        text = self.run_section("Open MPI, MPICH, torchrun", OMPI_ALLOW_RUN_AS_ROOT="1",
                                OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        self.assertIn("4 ranks", text)

    def test_two_hosts_on_one_machine(self):
        block = next(block for title, block in blocks() if title == "Two hosts on one machine")
        command = next(line for line in block.splitlines() if line.startswith("tutti"))
        done = subprocess.run(["bash", "-c", command], cwd=self.work, capture_output=True, text=True, timeout=LIMIT,
                              env=self.environment())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("Out of bounds values : 0 OK", done.stdout)

    def test_all_sections_are_typed(self):
        known = {"With ssh", "A host file", "Ports and firewalls", "Choosing interfaces", "Slurm",
                 "Open MPI, MPICH, torchrun", "Two hosts on one machine"}
        self.assertEqual({title for title, _ in blocks()}, known)


class Launcher(TwoHosts):
    def test_many_ranks_of_a_host_connect_a_few_at_a_time(self):
        text = self.passed("tutti run --hosts b:40 -- sh -c 'echo $TUTTI_RANK'")
        self.assertEqual(sorted(int(line.split()[1]) for line in text.splitlines()), list(range(40)))

    def test_words_pass_through_every_shell_unchanged(self):
        words = ["it's", '"quoted"', "a  b", "$HOME", "*", "", "back\\slash", "new\nline", "ü;&|"]
        quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
        for launcher in "", "--launcher 'ssh -i key {host}' ", "--launcher 'ip netns exec {host}' ":
            with self.subTest(launcher):
                text = self.passed(f"tutti run {launcher}--no-prefix --hosts b -- printf '<%s>' {quoted}")
                self.assertEqual(text, "".join(f"<{word}>" for word in words))

    def test_ctrl_c_ends_ranks_at_once(self):
        job = subprocess.Popen([*self.on("a"), TUTTI, "run", "--hosts", "a:2,b:2", "--", "sleep", "1000"], cwd=self.work,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment())
        end = time.monotonic() + LIMIT
        while self.sleepers() < 4 and time.monotonic() < end:
            time.sleep(0.05)  # other programs' processes: there is nothing to wait on
        launcher = int(subprocess.run(["pgrep", "-f", f"^{TUTTI} run"], capture_output=True, text=True).stdout.split()[0])
        began = time.monotonic()
        os.kill(launcher, 2)
        out, err = job.communicate(timeout=LIMIT)
        print(f"Ctrl-C: all ended after {time.monotonic() - began:.2f} s", flush=True)
        self.assertEqual(job.returncode, 130, out + err)
        self.assertEqual(err, "tutti run: ended by signal 2 (Interrupt)\n")
        self.assertEqual(self.sleepers(), 0)

    @staticmethod
    def sleepers():
        return len(subprocess.run(["pgrep", "-x", "-f", "sleep 1000"], capture_output=True, text=True).stdout.split())

    def test_hosts_known_to_ssh_alone_meet(self):
        config = "Host one\n  HostName 10.0.0.1\nHost two\n  HostName 10.0.0.2\nHost *\n  StrictHostKeyChecking accept-new\n"
        pathlib.Path(f"{HOME}/.ssh/config").write_text(config)
        self.addCleanup(os.unlink, f"{HOME}/.ssh/config")
        self.assertIn("2 ranks", self.passed("tutti run --hosts one,two -- ./sum"))


class Check(TwoHosts):
    def wrong(self, script, **more):
        done = self.typed(script, **more)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        return done.stderr

    def test_names_each_fault(self):
        self.assertRegex(self.wrong("tutti run --hosts a,nowhere --check"),
                         r"wrong: nowhere: ssh could not start it \(ssh: Could not resolve hostname nowhere")
        os.makedirs(f"{self.folder}/elsewhere/bin", exist_ok=True)
        subprocess.run(["cp", "-a", TUTTI, f"{self.folder}/elsewhere/bin/tutti"], check=True)
        # Only a has that program, on a file system of its own.
        only_a = (f"mount --bind {self.folder}/elsewhere /mnt; cd /; LD_LIBRARY_PATH={self.libraries()} "
                  "/mnt/bin/tutti run --hosts a,b --check")
        self.assertRegex(self.wrong(only_a), r"wrong: b: /mnt/bin/tutti cannot be run there")
        for host, address in ADDRESSES.items():
            subprocess.run(["ip", "-n", host, "link", "add", "lone0", "type", "veth", "peer", "name",
                            "lone1"], check=True)
            subprocess.run(["ip", "-n", host, "link", "set", "lone1", "up"], check=True)
            subprocess.run(["ip", "-n", host, "addr", "add", address.replace("10.0.0", "10.9.9") + "/32", "dev", "lone0"],
                           check=True)
            subprocess.run(["ip", "-n", host, "link", "set", "lone0", "up"], check=True)
            self.addCleanup(subprocess.run, ["ip", "-n", host, "link", "del", "lone0"])
        text = self.wrong("TUTTI_INTERFACE=lone0 tutti run --hosts a,b --check")
        self.assertRegex(text, r"wrong: a does not reach b at 10\.9\.9\.2 port \d+: Network is unreachable")
        self.assertRegex(text, r"wrong: b does not reach a at 10\.9\.9\.1 port \d+: Network is unreachable")
        # One address that works is enough.
        done = self.typed("tutti run --hosts a,b --check")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"note: a does not reach b at 10\.9\.9\.2")

    @staticmethod
    def libraries():
        return os.path.dirname(os.path.dirname(TUTTI))

    def test_writes_what_it_found(self):
        self.passed("tutti run --hosts a,b:3 --check --json found.json")
        import json
        found = json.loads(pathlib.Path(f"{self.work}/found.json").read_text())
        self.assertTrue(found["ok"])
        self.assertEqual([(host["host"], host["ranks"]) for host in found["hosts"]], [("a", 1), ("b", 3)])
        pair, = found["pairs"]
        self.assertEqual((pair["from"], pair["to"], pair["transport"]), (0, 1, "tcp"))
        self.assertTrue(0 < pair["latency"] < 1 and pair["bandwidth"] > 1e6 and pair["back"] > 1e6, pair)


if __name__ == "__main__":
    if MARK not in os.environ:
        own = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]
        if subprocess.run([*own, "true"], capture_output=True).returncode != 0:
            print("OK (skipped=1): namespaces are not permitted here")
            sys.exit(0)
        sys.exit(subprocess.run([*own, sys.executable, "-B", *sys.argv], env={**os.environ, MARK: "1"}).returncode)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
