#!/usr/bin/env python3
"""A rank is killed in the middle of calls on device memory: the others end within seconds, and name it.

    killed.py TUTTI
"""

import os
import signal
import subprocess
import sys
import time

LIMIT = 60  # seconds until a hanging test fails


def children(process):
    """The processes that it has started, and those that they have."""
    found = []
    for task in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{task}/children") as listed:
            for child in map(int, listed.read().split()):
                found += [child, *children(child)]
    return found


def ranks_of(process):
    """The rank processes, once they make calls: those that have the driver loaded."""
    with_driver = []
    for child in children(process):
        try:
            with open(f"/proc/{child}/maps") as maps:
                if "libcuda.so" in maps.read():
                    with_driver.append(child)
        except (FileNotFoundError, ProcessLookupError):
            pass
    return with_driver


def main():
    command = [sys.argv[1], "perf", "all_reduce", "--np", "3", "--device", "cuda", "-b", "64K", "-e", "64K", "-n", "1000000", "-w", "100"]
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + LIMIT
    while len(ranks_of(job.pid)) < 3:
        assert time.monotonic() < deadline and job.poll() is None, "the ranks did not start"
        time.sleep(0.05)
    for line in job.stdout:  # the header is printed when all ranks have joined
        if line.startswith("# size"):
            break
    time.sleep(0.5)  # now they are in their calls
    victim = ranks_of(job.pid)[1]
    os.kill(victim, signal.SIGKILL)
    killed = time.monotonic()
    _, errors = job.communicate(timeout=LIMIT)
    seconds = time.monotonic() - killed
    print(f"ended {seconds:.2f} s after the kill\n{errors[-1200:]}")
    assert job.returncode != 0
    assert f"pid {victim}" in errors or f"process {victim}" in errors or str(victim) in errors, "nobody names the process that was killed"
    assert seconds < 10, seconds


if __name__ == "__main__":
    main()
