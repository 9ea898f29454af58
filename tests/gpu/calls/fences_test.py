#!/usr/bin/env python3
"""Fences of all-reduces on GPUs: those that a block executes in a round, counted with the stand-in, are those that the cost
model charges. fences_test.py TUTTI GPU_TESTS

The model charges one fence of the system for each round of the plan, in calls by slots and by get (src/exec/methods.cpp); none
in calls by lines. A rank executes at most so many, and in plans that have the same steps on all ranks exactly so many: two_shot
with 8 ranks two, where each descriptor, credit and step of progress once had its own, 43 in all. No fence of the GPU is
executed where no lane waits for another.
"""

import json
import os
import re
import subprocess
import sys

ALIKE = ("one_shot", "two_shot", "ring", "recursive_doubling", "rabenseifner", "swing", "circulant")
OTHERS = ("binomial", "chain", "double_tree")
RANKS = "8"


def counted(tests, algorithm, method):
    env = {**os.environ, "TUTTI_ALGO": f"all_reduce:{algorithm}", "TUTTI_METHOD": method, "TUTTI_MAX_BLOCKS": "1"}
    done = subprocess.run([tests, "--gtest_filter=Fences.OfACall"], capture_output=True, text=True, timeout=120, env=env)
    found = re.search(r"^FENCES (\S+) (\S+) (\S+) (\S+)$", done.stdout, re.M)
    if done.returncode != 0 or found is None:
        sys.exit(done.stdout + done.stderr)
    assert found.group(1, 2) == (algorithm, method), found.group()
    return float(found.group(3)), float(found.group(4))


def main():
    tutti, tests = sys.argv[1:]
    listed = subprocess.run([tutti, "plan", "list", "-n", RANKS, "--json", "-"], check=True, capture_output=True, text=True).stdout
    charged = {row["algorithm"]: row["rounds"] for row in json.loads(listed) if row["collective"] == "all_reduce"}
    wrong = []
    for method in ("slots", "get", "ll"):
        for algorithm in ALIKE + OTHERS:
            by_model = 0 if method == "ll" else charged[algorithm]
            system, device = counted(tests, algorithm, method)
            good = system == by_model if algorithm in ALIKE else system <= by_model
            print(f"{algorithm} by {method}: {system:g} fences a rank, {by_model} charged; {device:g} of the GPU")
            if not good:
                wrong.append(f"{algorithm} by {method}")
            if algorithm == "two_shot" and (device != 0 or system > 2):
                wrong.append("two_shot: more than two fences")
    sys.exit(f"not as charged: {', '.join(wrong)}" if wrong else 0)


if __name__ == "__main__":
    main()
