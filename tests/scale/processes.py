"""processes.py TUTTI N: N rank processes of this host create a communicator over tcp and all-reduce, within 20 s."""

import os
import subprocess
import sys
import time

LIMIT = 20  # seconds
tutti, ranks = sys.argv[1], sys.argv[2]
begin = time.monotonic()
done = subprocess.run([tutti, "perf", "all_reduce", "--np", ranks, "-b", "8", "-e", "8", "-n", "1", "-w", "0"],
                      capture_output=True, text=True, timeout=100,
                      env={**os.environ, "TUTTI_TRANSPORT": "tcp", "TUTTI_ARENA": "64K"})
took = time.monotonic() - begin
print(done.stdout[-400:] + done.stderr)
print(f"{ranks} processes: {took:.1f} s")
sys.exit(0 if done.returncode == 0 and "Out of bounds values : 0 OK" in done.stdout and took < LIMIT else 1)
