"""Faults at random: whoever is asked, `tutti status` and `tutti trace` name the rank that committed it.

    culprit_test.py TUTTI LIAR [FAULTS [SEED]]      by default 10 faults of seed 1
"""

import json
import os
import random
import re
import subprocess
import sys
import unittest

from support import LIAR, main, tutti
from watched_job import ENDLESS, until

FAULTS, SEED = (int(word) for word in (sys.argv[3:] + ["10", "1"][len(sys.argv) - 3:])[:2])
RANKS = 4
KINDS = ("stall", "stop", "die", "less", "slow")
del sys.argv[3:]


class Ranks:
    """Processes without a launcher, which would end those that are left."""

    def __init__(self, fault, size="64K"):
        job = {"LIAR": fault, "TUTTI_SIZE": str(RANKS), "TUTTI_LOCAL_SIZE": str(RANKS), "TUTTI_JOB": f"culprits {os.getpid()} {fault}"}
        self.processes = [subprocess.Popen([LIAR, *(word.replace("64K", size) for word in ENDLESS)], env={**os.environ, **job, "TUTTI_RANK": str(rank), "TUTTI_LOCAL_RANK": str(rank)},
                                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                          for rank in range(RANKS)]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for process in self.processes:
            process.kill()
            process.wait()


def page_of(process):
    done = tutti("status", "--json", str(process))
    return json.loads(done.stdout) if done.returncode == 0 else None


def verdict_names(rank, asked):
    """The ranks that wait are said to wait for this one, at the end."""
    page = page_of(asked)
    return page and any(re.search(rf"for rank {rank} \(process", text) for text in page["verdicts"]) and page["verdicts"]


def failure_names(rank, asked):
    """The error of the asked process's communicator has the rank."""
    page = page_of(asked)
    failures = [one.get("failure", "") for one in page["processes"][0]["ranks"]] if page else []
    return any(re.search(rf"\brank {rank}\b", text) for text in failures) and failures


def trace_names(rank, asked):
    done = tutti("trace", "--json", str(asked))
    if done.returncode != 0:
        return None
    found = [one for one in json.loads(done.stdout)["collectives"] if one["name"] == "all_reduce" and one["calls"] >= 300]
    return found and found[0]["last"][0]["rank"] == rank and found[0]["last"]


NAMED_BY = {"stall": verdict_names, "stop": verdict_names, "die": failure_names, "less": failure_names, "slow": trace_names}


class Culprits(unittest.TestCase):
    def test_short_calls_are_compared_by_a_few_of_them(self):
        with Ranks("slow:2:1", "1K") as ranks:
            def found():
                done = tutti("trace", "--json", str(ranks.processes[0].pid))
                if done.returncode != 0:
                    return None
                one = [of for of in json.loads(done.stdout)["collectives"] if of["name"] == "all_reduce" and of["calls"] >= 20]
                return one and one[0]["last"][0]["rank"] == 2 and one[0]

            said = until(found)
        self.assertTrue(said)
        self.assertGreater(said["last"][0]["others_lost_seconds"], 0.5 * said["seconds"], "of three ranks that wait most of the time")

    def test_are_named(self):
        choose = random.Random(SEED)
        missed = []
        for number in range(FAULTS):
            kind, rank, call = choose.choice(KINDS), choose.randrange(RANKS), choose.randrange(20, 2000)
            with Ranks(f"{kind}:{rank}:{call}") as ranks:
                asked = ranks.processes[choose.choice([one for one in range(RANKS) if one != rank])].pid
                said = until(lambda: NAMED_BY[kind](rank, asked))
            print(f"{number + 1}: {kind} of rank {rank} at call {call}: {'named' if said else 'MISSED'}", flush=True)
            if not said:
                missed.append((kind, rank, call))
        self.assertLessEqual(len(missed), FAULTS // 100, missed)


if __name__ == "__main__":
    main()
