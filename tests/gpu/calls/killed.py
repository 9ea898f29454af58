#!/usr/bin/env python3
"""A rank is killed in the middle of calls on device memory: the others end within seconds, and name it.

    killed.py TUTTI [COLLECTIVE]
"""

import os
import re
import signal
import subprocess
import sys
import time

LIMIT = 60  # seconds until a hanging test fails


def main():
    collective = sys.argv[2] if len(sys.argv) > 2 else "all_reduce"
    command = [sys.argv[1], "perf", collective, "--np", "3", "--device", "cuda", "-b", "8", "-e", "4M", "-f", "524288",
               "-n", "200"]
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ranks = {}
    for line in job.stdout:
        if found := re.match(r"#  Rank +(\d+) Pid +(\d+) ", line):
            ranks[int(found[1])] = int(found[2])
        if re.match(r" +\d+ +\d+ +[a-z]", line):  # the first size is done: the ranks are in the calls of the second
            break
    assert len(ranks) == 3, f"the ranks did not start: {job.communicate(timeout=LIMIT)}"
    os.kill(ranks[1], signal.SIGKILL)
    killed = time.monotonic()
    _, errors = job.communicate(timeout=LIMIT)
    seconds = time.monotonic() - killed
    print(f"ended {seconds:.2f} s after the kill\n{errors[-1200:]}")
    assert job.returncode != 0
    assert f"rank 1 (process {ranks[1]}" in errors, "nobody names the rank that was killed"
    assert seconds < 10, seconds


if __name__ == "__main__":
    main()
