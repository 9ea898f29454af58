"""Four hosts whose links have rates: network namespaces on a bridge, on two bridges with a link between them, or with a
cable between any two.

Each veth is shaped by tbf at both of its ends, so both directions have the rate. Needs root, ip and tc.
"""

import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

FAST, SLOW = 100, 25  # MB/s
CABLE, SLOW_CABLE = 20, 5  # of cables, of which three are busy at a host: less, so that processors are not the limit
NAMES = [f"host{number}" for number in range(4)]
BURST = 128 << 10  # bytes that pass at once: more than one packet as the kernel hands it over
QUEUE = 512 << 10  # bytes that wait in a queue before some are lost
CONTROL = "cubic"  # of congestion: BBR reaches a third of such rates where data go both ways
TRIES = 5
LIMIT = 300  # seconds until a hanging program is given up
# The host's own name, its namespace, and a cache folder of its own.
ON = """#!/bin/sh
host=$1
shift
exec ip netns exec %(job)s$host unshare --uts sh -c 'hostname '$host'; exec "$@"' sh env XDG_CACHE_HOME=%(folder)s/$host "$@"
"""


def address(number):
    return f"10.96.0.{number + 1}"


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


def busy_part(seconds=2):
    """The part of a time in which processors work. (The load average is of the last minute.)"""
    def ticks():
        times = list(map(int, pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]))
        return sum(times), times[3] + times[4]
    before = ticks()
    time.sleep(seconds)
    total, idle = (b - a for a, b in zip(before, ticks()))
    return 1 - idle / max(1, total)


class Network:
    """rates: MB/s by host, FAST where nothing is said. islands: hosts on the second bridge; `between`: MB/s of the link
    to it. cables: no bridge, but a cable between any two hosts, MB/s by pair, CABLE where nothing is said."""

    def __init__(self, rates=None, islands=(), between=SLOW, cables=None):
        if os.geteuid() != 0:
            raise Unavailable("network namespaces need root")
        self.job = f"tl{os.getpid()}"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tutti-links-"))
        self.launcher = self.folder / "on"
        self.launcher.write_text(ON % {"job": self.job, "folder": self.folder})
        self.launcher.chmod(0o755)
        try:
            if cables is None:
                self.make_bridges(rates or {}, islands, between)
            else:
                self.make_cables(cables)
        except Unavailable:
            self.remove()
            raise

    def make_bridges(self, rates, islands, between):
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
            command(*host, "addr", "add", f"{address(number)}/24", "dev", "eth0")
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

    def make_cables(self, cables):
        """A host has one address, whichever cable a packet takes: all of its ranks know it by that. The cables have none."""
        for number, name in enumerate(NAMES):
            host = ("ip", "-n", self.job + name)
            command("ip", "netns", "add", self.job + name)
            command(*host, "link", "set", "lo", "up")
            command(*host, "link", "add", "own", "type", "bridge")
            command(*host, "addr", "add", f"{address(number)}/32", "dev", "own")
            command(*host, "link", "set", "own", "up")
        for a, b in itertools.combinations(range(len(NAMES)), 2):
            ends = ((a, f"to{b}"), (b, f"to{a}"))
            command("ip", "-n", self.job + NAMES[a], "link", "add", ends[0][1], "type", "veth", "peer", "name", ends[1][1],
                    "netns", self.job + NAMES[b])
            for (own, device), (other, _) in ends, ends[::-1]:
                host = ("ip", "-n", self.job + NAMES[own])
                command(*host, "link", "set", device, "up")
                command(*host, "route", "add", f"{address(other)}/32", "dev", device, "src", address(own), "congctl", CONTROL)
                self.shape(NAMES[own], device, cables.get((NAMES[a], NAMES[b]), CABLE))

    def shape(self, namespace, device, rate):
        command("tc", "-n", self.job + namespace, "qdisc", "add", "dev", device, "root", "tbf", "rate",
                f"{rate * 8}mbit", "burst", BURST, "limit", QUEUE)

    def tutti(self, build, *words, hosts=NAMES, slots=1, env=None, check=True):
        """Runs `tutti tune`, or by `tutti run` another of its commands, on the hosts."""
        program = [str(pathlib.Path(build) / "tools/tutti")]
        where = ["--launcher", f"{self.launcher} {{host}}", "--hosts", ",".join(f"{name}:{slots}" for name in hosts)]
        given = {"TUTTI_ROOT_ADDR": address(NAMES.index(hosts[0])), **(env or {})}
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

    def tune(self, build, *words):
        """What `tutti tune` says. On a busy machine it may refuse to measure; the same command goes on where it was."""
        for _ in range(TRIES):
            done = self.tutti(build, "tune", *words, check=False)
            if done.returncode == 0:
                return done.stdout
        raise RuntimeError(f"{TRIES} times: tune {' '.join(words)}\n{done.stdout}{done.stderr}")

    def milliseconds(self, build, collective, size, env=None):
        """What a call takes: the mean of two, after one that is not counted."""
        table = self.folder / "perf.json"
        self.tutti(build, "perf", collective, "-b", size, "-e", size, "-n", "2", "-w", "1", "-c", "0", "--json", table,
                   env={"TUTTI_LOG": "error", **(env or {})})
        return json.loads(table.read_text())["results"][0]["out_of_place"]["time_us"] / 1e3

    def why(self, build, collective, size):
        """The job's explanation of its choice: its lines."""
        done = self.tutti(build, "perf", collective, "-b", size, "-e", size, "-n", "1", "-w", "0", "-c", "0",
                          env={"TUTTI_EXPLAIN": "1"})
        count = size // 4 // (len(NAMES) if collective == "all_gather" else 1)
        lines = re.search(rf"why {collective}\(count={count},[^\n]*\n((?:\[0\] [ *] [^\n]*\n)+)", done.stderr)
        if not lines:
            raise RuntimeError(done.stderr)
        return lines[1].replace("[0] ", "")

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
# A cable between any two hosts, of which some are slow.
MESHES = {"one slow cable": {("host2", "host3"): SLOW_CABLE},
          "two slow cables of a host": {("host0", "host3"): SLOW_CABLE, ("host1", "host3"): SLOW_CABLE}}
