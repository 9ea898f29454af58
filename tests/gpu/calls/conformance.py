#!/usr/bin/env python3
"""All collectives on device memory: every algorithm that can run, out of place and in place, held against the exact result bit by bit.

    conformance.py TUTTI algorithms THREADS RANKS...   each algorithm with blocks of so many threads, for each number of ranks
    conformance.py TUTTI types THREADS RANKS...        each element type and operator
    conformance.py TUTTI product THREADS RANKS...      both: each algorithm with each element type and operator
    conformance.py TUTTI switch THREADS RANKS...       the collectives that switches run, of each element type and operator
    conformance.py TUTTI hosts THREADS HOSTS...        each algorithm between hosts with so many ranks, called and replayed from
                                                       a graph: 2.1 for processes, 2t.2t for threads

TUTTI_METHOD says what runs them. With CONFORMANCE_FEW=1 each algorithm has two sizes and not three, and of the types
and operators those stand for all that differ in how threads share their work: the default tests, a tenth to a half as long.
"""

import json
import os
import subprocess
import sys

from races import passed

COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter"]
OF_SWITCHES = ["all_reduce", "reduce_scatter", "all_gather"]
HIERARCHICAL = ("all_reduce", "all_gather", "broadcast")
# Odd numbers of elements; one round and several. A message in lines is shorter, and so is a round.
SIZES = ["-b", "20", "-e", "400020", "-i", "200000"]
if os.environ.get("TUTTI_METHOD", "").startswith("ll"):
    SIZES = ["-b", "20", "-e", "40020", "-i", "20000"]
FEW = os.environ.get("CONFORMANCE_FEW") == "1"
if FEW:
    SIZES = ["-b", "20", "-e", "20020", "-i", "20000"]


def algorithms(tutti, collective, ranks):
    """The algorithms that can run."""
    text = subprocess.run([tutti, "explain", collective, "--bytes", "64K", "-n", str(ranks), "--json"], check=True,
                          capture_output=True, text=True).stdout
    return sorted({row["algorithm"] for row in json.loads(text)["candidates"] if not row["verdict"].startswith("rejected")})


# Each process is a host of its own but the first $FIRST.
ON_HOSTS = 'if [ "$TUTTI_RANK" -ge "$FIRST" ]; then export TUTTI_FORCE_REMOTE=1; fi; exec "$@"'


def launched(tutti, hosts):
    """How to start ranks on hosts, which are processes here: "1.1.1", "2.1" (only the first has several), "2t.2t"."""
    sizes = hosts.split(".")
    if sizes[0].endswith("t"):
        return [tutti, "perf", "--np", str(len(sizes)), "-t", sizes[0][:-1]], {"TUTTI_FORCE_REMOTE": "1"}
    ranks = sum(map(int, sizes))
    return [tutti, "run", "-n", str(ranks), "--", "sh", "-c", ON_HOSTS, "sh", tutti, "perf"], {"FIRST": sizes[0]}


def perf(tutti, collective, ranks, flags, env):
    """Runs it; the complaint if the results are wrong."""
    start, own = ([tutti, "perf", "-t", str(ranks)], {}) if isinstance(ranks, int) else launched(tutti, ranks)
    env = {**env, **own}
    command = [*start, collective, "--device", "cuda", "-n", "1", "-w", "0", "-c", "1", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env={**os.environ, **env})
    if passed(done, collective):
        return ""
    return f"{env} {' '.join(command)}: exit status {done.returncode}\n{done.stdout[-600:]}{done.stderr[-1500:]}\n"


def main():
    tutti, what, threads, *all_ranks = sys.argv[1:]
    runs, wrong = 0, []
    for ranks in all_ranks if what == "hosts" else map(int, all_ranks):
        count = ranks if isinstance(ranks, int) else sum(int(size.rstrip("t")) for size in ranks.split("."))
        for collective in OF_SWITCHES if what == "switch" else COLLECTIVES:
            cases = [(SIZES, {"TUTTI_ALGO": f"{collective}:{name}"}) for name in algorithms(tutti, collective, count)]
            if what == "hosts":
                if ranks.startswith("2.") and collective in HIERARCHICAL:  # `explain` knows one host only
                    cases.append((SIZES, {"TUTTI_ALGO": f"{collective}:hierarchical"}))
                cases += [([*flags, "-G", "2"], env) for flags, env in cases]
                if collective == "all_reduce":  # a message that lies nowhere, inline to some peers and in lines to others
                    cases.append((["-b", "20", "-e", "20", "-o", "premulsum"], {"TUTTI_ALGO": "all_reduce:one_shot"}))
            all_types = ["-d", "all", *(["-o", "all"] if "reduce" in collective else [])]
            if FEW:
                all_types = ["-d", "f16"]
            if what == "types":
                cases = [(["-b", "1000", "-e", "9000", "-i", "8000", *all_types], {})]
            if what == "product":
                cases = [(["-b", "1000", "-e", "1000", *all_types], env) for _, env in cases]
            if what == "switch":
                cases = [(["-b", "1000", "-e", "9000", "-i", "8000", *all_types], {}),
                         (["-b", "20", "-e", "1200020", "-i", "400000"], {"TUTTI_MAX_BLOCKS": "2"})]
            for flags, env in cases:
                runs += 1
                wrong.append(perf(tutti, collective, ranks, flags, {**env, "TUTTI_BLOCK_THREADS": threads}))
        for collective in () if what == "switch" else ("send_recv", "barrier"):
            runs += 1
            wrong.append(perf(tutti, collective, ranks, ["-b", "20", "-e", "20"] if collective == "barrier" else SIZES,
                              {"TUTTI_BLOCK_THREADS": threads}))
    wrong = [text for text in wrong if text]
    print(f"{runs} runs, {len(wrong)} wrong")
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
