#!/usr/bin/env python3
"""Thread ranks on the stand-in, with the threads of their GPUs in another order for each seed. Results are compared with the
exact ones. Under ThreadSanitizer (tsan preset), which sees each thread of a GPU as a thread, a race ends the run too.

    seeds.py TUTTI FIRST LAST     seeds FIRST to LAST; each runs every wire, with a collective and a size of block in turn
"""

import os
import subprocess
import sys

from races import passed

METHODS = ["ll", "ll128", "slots", "", "nvls"]
COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"]
THREADS = [32, 4, 64]  # of a block


def main():
    tutti, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    wrong, runs = [], 0
    for seed in range(first, last + 1):
        for method in METHODS:
            turn = seed * len(METHODS) + METHODS.index(method)
            env = {"FAKE_CUDA_SEED": str(seed), "TUTTI_METHOD": method, "TUTTI_BLOCK_THREADS": str(THREADS[turn % len(THREADS)]),
                   "TUTTI_MAX_BLOCKS": "3"}
            collective = "all_reduce" if method == "nvls" else COLLECTIVES[turn % len(COLLECTIVES)]
            command = [tutti, "perf", collective, "--device", "cuda", "-t", "3", "-c", "2", "-n", "1",
                       "-w", "0", "-b", "1000", "-e", "41000", "-i", "40000"]
            runs += 1
            done = subprocess.run(command, capture_output=True, text=True, timeout=250, env={**os.environ, **env})
            if not passed(done, collective):
                wrong.append(f"{env} {' '.join(command)}: exit status {done.returncode}\n{done.stdout[-400:]}{done.stderr[:6000]}")
    print(f"{runs} runs with {last - first + 1} seeds, {len(wrong)} wrong")
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
