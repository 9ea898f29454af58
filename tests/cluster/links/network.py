"""Four hosts whose links have rates: network namespaces on a bridge, or on two bridges with a link between them.

Each host's veth is shaped by tbf at both of its ends, so both directions have the rate. Needs root, ip and tc.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile

FAST, SLOW = 100, 25  # MB/s
NAMES = [f"host{number}" for number in range(4)]
BURST = 128 << 10  # bytes that pass at once: more than one packet as the kernel hands it over
QUEUE = 512 << 10  # bytes that wait in a queue before some are lost
CONTROL = "cubic"  # of congestion: BBR reaches a third of such rates where data go both ways
LIMIT = 300  # seconds until a hanging program is given up
# The host's own name, its namespace, and a cache folder of its own.
ON = """#!/bin/sh
host=$1
shift
exec ip netns exec %(job)s$host unshare --uts sh -c 'hostname '$host'; exec "$@"' sh env XDG_CACHE_HOME=%(folder)s/$host "$@"
"""


class Unavailable(Exception):
    """There can be no such hosts here."""


def command(*words, check=True):
    try:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=LIMIT)
    except FileNotFoundError:
        raise Unavailable(f"{words[0]} is missing") from None
    if check and done.returncode != 0:
        raise Unavailable(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return done


class Network:
    """rates: MB/s by host, FAST where nothing is said. islands: hosts on the second bridge; `between`: MB/s of the link
    to it."""

    def __init__(self, rates=None, islands=(), between=SLOW):
        if os.geteuid() != 0:
            raise Unavailable("network namespaces need root")
        self.job = f"tl{os.getpid()}"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tutti-links-"))
        self.launcher = self.folder / "on"
        self.launcher.write_text(ON % {"job": self.job, "folder": self.folder})
        self.launcher.chmod(0o755)
        try:
            self.make(rates or {}, islands, between)
        except Unavailable:
            self.remove()
            raise

    def make(self, rates, islands, between):
        switch = ("ip", "-n", f"{self.job}switch")
        command("ip", "netns", "add", f"{self.job}switch")
        for bridge in "br0", "br1":
            command(*switch, "link", "add", bridge, "type", "bridge")
            command(*switch, "link", "set", bridge, "up")
        for number, name in enumerate(NAMES):
            host = ("ip", "-n", self.job + name)
            command("ip", "netns", "add", self.job + name)
            command(*switch, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", self.job + name)
            command(*switch, "link", "set", name, "master", "br1" if name in islands else "br0", "up")
            command(*host, "addr", "add", f"10.96.0.{number + 1}/24", "dev", "eth0")
            command(*host, "link", "set", "lo", "up")
            command(*host, "link", "set", "eth0", "up")
            command(*host, "route", "replace", "10.96.0.0/24", "dev", "eth0", "congctl", CONTROL)
            self.shape("switch", name, rates.get(name, FAST))
            self.shape(name, "eth0", rates.get(name, FAST))
        if islands:
            command(*switch, "link", "add", "up0", "type", "veth", "peer", "name", "up1")
            for number in 0, 1:
                command(*switch, "link", "set", f"up{number}", "master", f"br{number}", "up")
                self.shape("switch", f"up{number}", between)

    def shape(self, namespace, device, rate):
        command("tc", "-n", self.job + namespace, "qdisc", "add", "dev", device, "root", "tbf", "rate",
                f"{rate * 8}mbit", "burst", BURST, "limit", QUEUE)

    def tutti(self, build, *words, hosts=NAMES, slots=1, env=None, check=True):
        """Runs `tutti tune`, or by `tutti run` another of its commands, on the hosts."""
        program = [str(pathlib.Path(build) / "tools/tutti")]
        where = ["--launcher", f"{self.launcher} {{host}}", "--hosts", ",".join(f"{name}:{slots}" for name in hosts)]
        given = {"TUTTI_ROOT_ADDR": f"10.96.0.{NAMES.index(hosts[0]) + 1}", **(env or {})}
        exported = [word for name in given for word in ("-x", name)]
        if words[0] == "tune":
            line = [*program, "tune", *where, *exported, *words[1:]]
        else:
            line = [*program, "run", *where, *exported, "--", *program, *words]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}
        done = subprocess.run([str(word) for word in line], capture_output=True, text=True, timeout=LIMIT,
                              env={**inherited, "XDG_CACHE_HOME": str(self.folder / hosts[0]), **given})
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
        return done

    def remove(self):
        for name in [*NAMES, "switch"]:
            command("ip", "netns", "del", self.job + name, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


CASES = {"even": {}, "slow host": {"rates": {"host2": SLOW}},
         "islands": {"islands": ("host1", "host3"), "between": SLOW}}
