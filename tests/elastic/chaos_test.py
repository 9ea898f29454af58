"""A job over two hosts whose ranks are killed and stopped, whose cable is cut, and to which further processes come.

    chaos_test.py BUILD [--seconds N] [--seed N] [--every FROM TO] [--pause MILLISECONDS]

The hosts are network namespaces with a cable between them; the job has three ranks on each (chaos_job.cpp). At random
moments one of these things happens, and the job must get on within a minute. At the end every element of every result
was right, no process, file or namespace is left, and memory and descriptors have hardly grown.
"""

import argparse
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HEARTBEAT = 2  # seconds
GETS_ON_WITHIN = 60  # seconds
RANKS_EACH = 3
# KiB and descriptors. A process keeps the last 64 communicators that it has destroyed, 150 KB each: 1 to 10 MiB and 0 to 2
# descriptors were seen in 13 to 80 generations, and 15 MiB in 20 minutes.
MOST_GROWTH = 16 << 10, 4
KNOWN = ("chaos_job", "progress", "log", "on", "tmp")  # files of this test
LAST_KILLS = 6  # with which a job ends that has as many ranks as the launcher has started
COMPARED_OVER = 4  # generations at least, of as many ranks, between the two figures of a process
NAMES = ("near", "far")
ADDRESSES = ("10.98.0.1", "10.98.0.2")


class Unavailable(Exception):
    """There can be no such hosts here."""


def command(*words, check=True):
    try:
        done = subprocess.run(words, capture_output=True, text=True)
    except FileNotFoundError:
        raise Unavailable(f"{words[0]} is missing") from None
    if check and done.returncode != 0:
        raise Unavailable(f"{' '.join(words)}: {done.stderr.strip()}")


class Hosts:
    """Two network namespaces and a cable."""

    def __init__(self):
        if os.geteuid() != 0:
            raise Unavailable("network namespaces need root")
        self.spaces = [f"tc{os.getpid()}{name}" for name in NAMES]
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tutti-chaos-"))
        self.launcher = self.folder / "on"
        self.launcher.write_text(f'#!/bin/sh\nshift\nexec ip netns exec {self.spaces[1]} "$@"\n')
        self.launcher.chmod(0o755)
        try:
            for space in self.spaces:
                command("ip", "netns", "add", space)
                command("ip", "-n", space, "link", "set", "lo", "up")
            command("ip", "-n", self.spaces[0], "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns",
                    self.spaces[1])
            for space, address in zip(self.spaces, ADDRESSES):
                command("ip", "-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
                command("ip", "-n", space, "link", "set", "eth0", "up")
        except Unavailable:
            self.remove()
            raise

    def cable(self, state):
        command("ip", "-n", self.spaces[1], "link", "set", "eth0", state)

    def remove(self):
        for space in self.spaces:
            command("ip", "netns", "del", space, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


def environment_of(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return {}
    return dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)


def processes_of(program):
    """The processes that run a program, by number."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.readlink(entry / "exe") == program:
                    found.append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                pass
    return found


class Chaos:
    def __init__(self, build, hosts, seed, pause, any_memory):
        self.random = random.Random(seed)
        self.hosts = hosts
        self.pause, self.any_memory = str(pause), any_memory
        # A copy, so that its processes are this job's alone.
        self.program = str(hosts.folder / "chaos_job")
        shutil.copy(build / "tests/elastic/tutti_chaos_job", self.program)
        self.progress = hosts.folder / "progress"
        self.scratch = hosts.folder / "tmp"
        self.scratch.mkdir()
        self.shared_before = {name for name in os.listdir("/dev/shm") if "tutti" in name.lower()}
        self.log = open(hosts.folder / "log", "w+")
        given = {"TUTTI_HEARTBEAT_TIMEOUT": str(HEARTBEAT), "TUTTI_INIT_TIMEOUT": "30", "TUTTI_TIMEOUT": "60",
                 "TUTTI_ROOT_ADDR": ADDRESSES[0], "TMPDIR": str(self.scratch), "XDG_RUNTIME_DIR": str(self.scratch)}
        self.env = {**{name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}, **given}
        words = ["ip", "netns", "exec", hosts.spaces[0], str(build / "tools/tutti"), "run", "--hosts",
                 f"localhost:{RANKS_EACH},{ADDRESSES[1]}:{RANKS_EACH}", "--launcher", f"{hosts.launcher} {{host}}",
                 "--restarts", "100000", "--notice", "60", "-v", "--", self.program, str(self.progress), self.pause]
        self.job = subprocess.Popen(words, env=self.env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.guests = []
        self.counts = {}

    def state(self):
        """Step, ranks, generation, and when the step began by time.monotonic_ns(); zeros before the first step."""
        try:
            return tuple(map(int, self.progress.read_text().split()))
        except (FileNotFoundError, ValueError):
            return 0, 0, 0, 0

    def await_progress(self, what):
        """Until two steps have been told that began after now: for one, a dead rank may have sent its part before."""
        now, end, steps = time.monotonic_ns(), time.monotonic() + GETS_ON_WITHIN, set()
        while len(steps) < 2:
            step, _, _, began = self.state()
            if began > now:
                steps.add(step)
            if self.job.poll() is not None:
                raise AssertionError(f"the job has ended after: {what}")
            if time.monotonic() > end:
                raise AssertionError(f"no two steps in {GETS_ON_WITHIN} s after: {what}")
            time.sleep(0.02)

    def ranks(self):
        return [pid for pid in processes_of(self.program) if "TUTTI_RANK" in environment_of(pid)]

    # ---- what happens

    def kill(self):
        pid = self.random.choice(self.ranks())
        os.kill(pid, signal.SIGKILL)
        return f"process {pid} is killed"

    def stop(self):
        pid = self.random.choice(self.ranks())
        os.kill(pid, signal.SIGSTOP)
        return f"process {pid} is stopped"

    def cut(self):
        seconds = self.random.choice((0.5, HEARTBEAT + 2))
        self.hosts.cable("down")
        time.sleep(seconds)
        self.hosts.cable("up")
        return f"the cable was cut for {seconds} s"

    def join(self):
        ranks = self.ranks()
        if not ranks:
            return "nobody to join"
        known = environment_of(ranks[0])
        given = {name: known[name] for name in ("TUTTI_JOB", "TUTTI_KEY", "TUTTI_JOB_SERVER")}
        words = ["ip", "netns", "exec", self.random.choice(self.hosts.spaces), self.program, str(self.progress), self.pause]
        self.guests.append(subprocess.Popen(words, env={**self.env, **given}, stdin=subprocess.DEVNULL, stdout=self.log,
                                            stderr=self.log))
        return "a process joins"

    def leave(self):
        living = [guest for guest in self.guests if guest.poll() is None]
        if not living:
            return self.join()
        guest = self.random.choice(living)
        guest.kill()
        guest.wait()
        return "a process that had joined is killed"

    def run(self, seconds, every):
        self.await_progress("the start")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(self.random.uniform(*every))
            happens = self.random.choice((self.kill, self.kill, self.stop, self.cut, self.join, self.leave))
            self.counts[happens.__name__] = self.counts.get(happens.__name__, 0) + 1
            begin = time.monotonic()
            what = happens()
            self.await_progress(what)
            print(f"{what}: the next steps {time.monotonic() - begin:.1f} s later; step, ranks, generation {self.state()[:3]}", flush=True)

    def expect_nothing_left(self, log):
        """No process in the namespaces, no file, and no shared memory with a name."""
        left = processes_of(self.program)
        for space in self.hosts.spaces:
            left += subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True).stdout.split()
        assert not left, f"processes {left} are left"
        files = sorted(str(path) for path in self.scratch.rglob("*"))
        assert not files, f"files {files} are left"
        others = sorted(path.name for path in self.hosts.folder.iterdir() if path.name not in KNOWN)
        assert not others, f"files {others} are left beside the program"
        named = {name for name in os.listdir("/dev/shm") if "tutti" in name.lower()} - self.shared_before
        assert not named, f"{named} are left in /dev/shm"
        pids = set(re.findall(r"\(pid (\d+)\)", log)) | {str(guest.pid) for guest in self.guests}
        segments = pathlib.Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
        assert not [line for line in segments if line.split()[4] in pids], "a segment of System V is left"

    def settle(self):
        """Memory and descriptors are compared between generations of as many ranks: the last ones all have the launcher's, and
        one process at least is in all of them."""
        for guest in self.guests:
            guest.kill()
            guest.wait()
        spared = self.random.choice(self.ranks())
        for _ in range(LAST_KILLS):
            self.await_progress("the last kills")
            victim = self.random.choice([rank for rank in self.ranks() if rank != spared])
            os.kill(victim, signal.SIGKILL)
        self.await_progress("the last kill")

    def finish(self):
        self.job.send_signal(signal.SIGTERM)
        status = self.job.wait(120)
        for guest in self.guests:
            guest.wait(60)
        self.log.seek(0)
        text = self.log.read()
        ends = re.findall(r"end: step (\d+), made (\d+), wrong (\d+), failures (\d+), generations (\d+), "
                          r"KiB (\d+) (\d+), descriptors (\d+) (\d+), (\d+) generations later", text)
        assert status == 0, f"the job ended with {status}"
        assert len(ends) >= 2 * RANKS_EACH, f"{len(ends)} ranks have told their end"
        assert all(int(end[2]) == 0 for end in ends), "a result was wrong"
        assert len({end[0] for end in ends}) == 1, "ranks ended at different steps"
        self.expect_nothing_left(text)
        oldest = max(ends, key=lambda end: int(end[9]))
        assert int(oldest[9]) >= COMPARED_OVER, f"no process can be compared over more than {oldest[9]} generations"
        grown = int(oldest[6]) - int(oldest[5]), int(oldest[8]) - int(oldest[7])
        print(f"{self.counts}: {ends[0][0]} steps, {len(ends)} ranks at the end; one of {oldest[4]} generations, over {oldest[9]} "
              f"of them: memory {oldest[5]} to {oldest[6]} KiB, descriptors {oldest[7]} to {oldest[8]}")
        assert self.any_memory or grown[0] < MOST_GROWTH[0], f"memory has grown by {grown[0]} KiB"
        assert grown[1] < MOST_GROWTH[1], f"descriptors have grown by {grown[1]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=float, nargs=2, default=(5, 15))
    parser.add_argument("--pause", type=int, default=0, help="ms behind each step of the job, which else takes all processors")
    parser.add_argument("--any-memory", action="store_true", help="memory may grow: a sanitizer's own does")
    options = parser.parse_args()
    try:
        hosts = Hosts()
    except Unavailable as error:
        print(f"skipped: {error}")
        return 77
    chaos = Chaos(options.build.resolve(), hosts, options.seed, options.pause, options.any_memory)
    try:
        chaos.run(options.seconds, options.every)
        chaos.settle()
        chaos.finish()
    except BaseException:
        chaos.log.seek(0)
        sys.stderr.write(f"seed {options.seed}\n" + chaos.log.read()[-20000:])
        chaos.job.kill()
        for guest in chaos.guests:
            guest.kill()
        raise
    finally:
        time.sleep(0.5)
        hosts.remove()
    return 0


if __name__ == "__main__":
    sys.exit(main())
