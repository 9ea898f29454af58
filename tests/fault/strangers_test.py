"""Strangers at every listening port of a job: garbage, truncated, oversized, replayed and slow bytes disturb nothing.

    strangers_test.py TUTTI MODULES [unittest's arguments]

Two ranks all-reduce over a transport. Rank 1 reaches the bootstrap through a relay, which keeps its handshake: that is
what is replayed. All ports at which the ranks' processes listen are attacked from the start to the end: those of the
bootstrap, of data connections, and UCX's own. MODULES: a folder for each transport that is a module, as NAME=FOLDER.
"""

import os
import random
import secrets
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

TUTTI = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
FOLDERS = {}
while len(sys.argv) > 1 and "=" in sys.argv[1]:
    name, folder = sys.argv.pop(1).split("=", 1)
    FOLDERS[name] = os.path.abspath(folder)
LIMIT = 100  # seconds until a hanging rank fails
FEWEST_ATTACKS = 20  # at each port
MOST_MEMORY = 64 << 10  # KiB that attacks may cost a rank
MOST_HEARD = 4096  # bytes of a client
MAGIC = b"TUTTI\0\0\1"
random.seed(17)


def listening_ports(process):
    """The TCP ports at which a process listens; none once it has ended."""
    try:
        held = {os.readlink(f"/proc/{process}/fd/{fd}") for fd in os.listdir(f"/proc/{process}/fd")}
        ports = set()
        for table in "tcp", "tcp6":
            with open(f"/proc/{process}/net/{table}", encoding="ascii") as rows:
                for words in [row.split() for row in rows][1:]:
                    if words[3] == "0A" and f"socket:[{words[9]}]" in held:
                        ports.add(int(words[1].rsplit(":", 1)[1], 16))
        return ports
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return set()


def max_memory(process):
    """The peak memory of a process in KiB."""
    try:
        with open(f"/proc/{process}/status", encoding="ascii") as rows:
            return next((int(row.split()[1]) for row in rows if row.startswith("VmHWM")), 0)
    except (FileNotFoundError, ProcessLookupError):
        return 0


def held_port():
    """A socket bound to a free port: others do not get the port, and who allows to share it can listen there."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


class Relay(threading.Thread):
    """Passes connections on to a port; keeps the most bytes that a client has sent: it gives up a slow first attempt.

    The clients' bytes wait for the event `attacked`: the port may close as soon as all ranks have met at it.
    """

    def __init__(self, to):
        super().__init__(daemon=True)
        self.to, self.heard, self.open, self.attacked = to, b"", [], threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:  # closed
                return
            self.open.append(client)
            server = self.connect()
            if server is None:
                continue
            self.open.append(server)
            for ends in (client, server, True), (server, client, False):
                threading.Thread(target=self.copy, args=ends, daemon=True).start()

    def connect(self):
        """Waits until rank 0 listens; no event says so to a process that is none of its job's."""
        for _ in range(200):
            try:
                return socket.create_connection(("127.0.0.1", self.to))
            except ConnectionRefusedError:
                time.sleep(0.05)
        return None

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # ends accept()
        self.listener.close()
        for end in self.open:
            end.close()

    def copy(self, source, to, is_client):
        sent = b""
        try:
            while data := source.recv(65536):
                if is_client:
                    sent = (sent + data)[:MOST_HEARD]
                    self.heard = max(self.heard, sent, key=len)
                    self.attacked.wait(LIMIT)
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class Strangers(threading.Thread):
    """Attacks `ports` until they are told to stop."""

    def __init__(self, relay):
        super().__init__(daemon=True)
        self.relay, self.ports, self.attacks, self.over, self.slow = relay, set(), {}, False, []

    def messages(self):  # (what speaks UCX's own protocol is in tests/ucx/hostile_test.cpp)
        heard = self.relay.heard
        noise = random.randbytes(random.randrange(1, 5000))
        yield noise
        yield MAGIC + noise
        yield heard[:random.randrange(len(heard) + 1)]  # truncated
        yield heard  # replayed
        yield heard[:104] + struct.pack("<I", 0xffffffff) + noise
        yield b"\0" * (1 << 20)  # oversized
        yield b""

    def run(self):
        while not self.over:
            for port in list(self.ports):
                for message in self.messages():
                    self.attack(port, message)
                drip = self.connect(port)
                if drip:
                    self.slow.append(drip)
            for drip in self.slow:
                try:
                    drip.send(MAGIC[:1])
                except OSError:
                    pass
            self.forget(100)
        self.forget(0)

    def forget(self, but):
        """Closes slow connections but the last ones."""
        old, self.slow = self.slow[:len(self.slow) - but], self.slow[max(0, len(self.slow) - but):]
        for drip in old:
            drip.close()

    def connect(self, port):
        try:
            stranger = socket.create_connection(("127.0.0.1", port), timeout=1)
            stranger.setblocking(False)
            return stranger
        except OSError:
            return None

    def attack(self, port, message):
        stranger = self.connect(port)
        if stranger is None:
            return
        try:
            stranger.send(message)
        except OSError:
            pass
        self.attacks[port] = self.attacks.get(port, 0) + 1
        if self.attacks.get(self.relay.to, 0) >= FEWEST_ATTACKS:
            self.relay.attacked.set()
        if random.randrange(2):
            self.slow.append(stranger)  # it stays, and says little more
        else:
            stranger.close()


class Ports(unittest.TestCase):
    def run_ranks(self, transport, calls, attacked):
        """Runs two ranks; returns the most memory that one took, and the attacks by port."""
        held = held_port()
        self.addCleanup(held.close)
        port = held.getsockname()[1]
        relay = Relay(port)
        relay.start()
        strangers = Strangers(relay)
        common = {"TUTTI_SIZE": "2", "TUTTI_JOB": f"strangers{os.getpid()}", "TUTTI_KEY": secrets.token_hex(32),
                  "TUTTI_ROOT_ADDR": "127.0.0.1", "TUTTI_LOCAL_SIZE": "1",  # as on two hosts: over TCP
                  "TUTTI_LOCAL_RANK": "0", "TUTTI_TRANSPORT": transport, "TUTTI_TIMEOUT": "30",
                  "TUTTI_INIT_TIMEOUT": "30",
                  "TUTTI_MODULE_PATH": FOLDERS.get(transport, ""), "UCX_TLS": "tcp,self",
                  "UCX_WARN_UNUSED_ENV_VARS": "n"}
        command = [TUTTI, "perf", "all_reduce", "-b", "8", "-e", "512K", "-f", "256", "-n", str(calls), "-w", "1"]
        ranks = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env={**os.environ, **common, "TUTTI_RANK": str(rank),
                                       "TUTTI_PORT": str(relay.port if rank else port)}) for rank in range(2)]
        if attacked:
            strangers.ports = {port}
            strangers.start()
        else:
            relay.attacked.set()
        memory, end = 0, time.monotonic() + LIMIT
        while any(rank.poll() is None for rank in ranks) and time.monotonic() < end:
            strangers.ports = {port}.union(*(listening_ports(rank.pid) for rank in ranks))
            memory = max(memory, *(max_memory(rank.pid) for rank in ranks))
            time.sleep(0.02)  # between two looks at /proc: which ports are open now, and how much memory
        for rank in ranks:
            rank.kill()  # one that hangs
        texts = [rank.communicate()[0] for rank in ranks]
        relay.close()
        strangers.over = True
        if attacked:
            strangers.join()
        for rank, text in zip(ranks, texts):
            self.assertEqual(rank.returncode, 0, "\n".join(texts))
        self.assertIn("Out of bounds values : 0 OK", texts[0])
        self.assertGreater(len(relay.heard), 104, "nothing to replay was heard")
        return memory, strangers.attacks

    def strangers_disturb_nothing(self, transport, calls, fewest_ports):
        alone, _ = self.run_ranks(transport, 3, attacked=False)
        attacks, end = {}, time.monotonic() + LIMIT
        while (len(attacks) < fewest_ports or min(attacks.values()) < FEWEST_ATTACKS) and time.monotonic() < end:
            memory, attacks = self.run_ranks(transport, calls, attacked=True)
            calls *= 4  # a fast machine was done before every port was attacked
        print(f"{transport}: {sum(attacks.values())} attacks at {len(attacks)} ports; at most {memory} KiB a rank, "
              f"{alone} KiB alone", flush=True)
        self.assertGreaterEqual(len(attacks), fewest_ports, attacks)
        self.assertGreaterEqual(min(attacks.values()), FEWEST_ATTACKS, f"a port was attacked too seldom: {attacks}")
        self.assertLess(memory - alone, MOST_MEMORY)

    def test_tcp(self):
        self.strangers_disturb_nothing("tcp", 300, 3)  # the bootstrap's, and a data port of each rank

    def test_verbs(self):
        self.strangers_disturb_nothing("verbs", 10, 3)  # the bootstrap's, and the port for streams of each rank

    def test_ucx(self):
        self.strangers_disturb_nothing("ucx", 300, 5)  # UCX has one more in each rank


# Of the modules, those that the command line names: verbs takes a device, and tests/cluster/verbs has one.
for name in {"verbs", "ucx"} - set(FOLDERS):
    delattr(Ports, f"test_{name}")

if __name__ == "__main__":
    unittest.main()
