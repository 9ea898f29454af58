"""Ranks of torch.distributed over Gloo, as PyTorch's users call it.   torch_gloo.py FOLDER RANKS

The same turns as play.hpp, whose comments say what each mode measures: a call has Python's and PyTorch's share in it.
"""

import os
import pathlib
import signal
import sys
import time

import torch
import torch.distributed as dist

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter",
               "barrier")


def values(source, first, count):
    """Elements of rank `source`'s input: value_of in collective.hpp."""
    at = torch.arange(first, first + count, dtype=torch.int64)
    return (3 * (source + 1) + (at ^ (at >> 7)) % 5).float()


class Peer:
    def __init__(self, folder, rank, ranks):
        self.rank, self.ranks = rank, ranks
        self.turn, self.said = open(f"{folder}/turn.{rank}", encoding="ascii"), os.open(f"{folder}/said", os.O_WRONLY)
        dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store/torch", ranks), rank=rank,
                                world_size=ranks)

    def open(self, what, size):
        count, mine, root = size // 4, size // 4 // self.ranks, self.rank == 0
        inputs = {"all_gather": mine, "gather": mine, "broadcast": count if root else 0,
                  "scatter": count if root else 0, "barrier": 0}.get(what, count)
        outputs = {"reduce_scatter": mine, "scatter": mine, "reduce": count if root else 0,
                   "gather": count if root else 0, "barrier": 0}.get(what, count)
        self.input = values(self.rank, 0, inputs)
        self.output = torch.full((outputs,), -1.0)
        blocks = list(self.output.split(max(1, mine))) if what in ("all_gather", "gather") and outputs else None
        parts = list(self.input.split(max(1, mine))) if what == "scatter" and root else None
        self.call = {
            "all_reduce": lambda: (self.output.copy_(self.input), dist.all_reduce(self.output)),
            "all_gather": lambda: dist.all_gather(blocks, self.input),
            "reduce_scatter": lambda: dist.reduce_scatter_tensor(self.output, self.input),
            "all_to_all": lambda: dist.all_to_all_single(self.output, self.input),
            "broadcast": lambda: dist.broadcast(self.input if root else self.output, 0),
            "reduce": lambda: (self.output.copy_(self.input), dist.reduce(self.output, 0)) if root else
                              dist.reduce(self.input, 0),
            "gather": lambda: dist.gather(self.input, blocks if root else None, 0),
            "scatter": lambda: dist.scatter(self.output, parts, 0),
            "barrier": dist.barrier}[what]
        dist.barrier()
        self.call()
        wrong = int((self.output != self.expected(what, outputs, mine)).sum()) if outputs and not (
            what == "broadcast" and root) else 0
        dist.barrier()
        self.input.zero_()
        return wrong

    def expected(self, what, count, mine):
        first = self.rank * mine
        if what in ("all_reduce", "reduce"):
            return sum(values(r, 0, count) for r in range(self.ranks))
        if what == "reduce_scatter":
            return sum(values(r, first, count) for r in range(self.ranks))
        if what in ("all_gather", "gather"):
            return torch.cat([values(r, 0, mine) for r in range(self.ranks)])
        if what == "all_to_all":
            return torch.cat([values(r, first, mine) for r in range(self.ranks)])
        return values(0, first if what == "scatter" else 0, count)

    @staticmethod
    def seconds(calls, body):
        begin = time.perf_counter()
        for turn in range(calls):
            body(turn)
        return (time.perf_counter() - begin) / calls

    def time(self, mode, calls):
        touching = 0.0
        dist.barrier()
        if mode == "used":
            def touch(turn):
                self.input.fill_(turn & 3)
                self.output.sum()

            def use(turn):
                self.input.fill_(turn & 3)
                self.call()
                self.output.sum()
            whole = self.seconds(calls, use)
            dist.barrier()
            touching = self.seconds(calls, touch)
        elif mode == "apart":
            whole = 0.0
            for _ in range(calls):
                dist.barrier()
                whole += self.seconds(1, lambda _: self.call()) / calls
        else:
            whole = self.seconds(calls, lambda _: self.call())
        dist.barrier()
        return whole * 1e6, touching * 1e6

    def run(self):
        self.say("ready")
        for line in self.turn:
            words = line.split()
            if words[0] == "end":
                return
            if words[0] == "open" and words[1] in COLLECTIVES:
                self.say(f"wrong {self.open(words[1], int(words[2]))}")
            elif words[0] == "time":
                self.say("took %.9f %.9f" % self.time(words[1], int(words[2])))
            elif words[0] == "close":
                dist.barrier()
                self.say("closed")
            else:
                self.say(f"cannot {words[0]}")

    def say(self, text):
        os.write(self.said, f"{self.rank} {text}\n".encode())


def main():
    folder, ranks = sys.argv[1], int(sys.argv[2])
    pathlib.Path(folder, "store").mkdir(exist_ok=True)
    rank = 0
    for other in range(1, ranks):
        if os.fork() == 0:
            rank = other
            break
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    torch.set_num_threads(1)
    Peer(folder, rank, ranks).run()
    sys.stdout.flush()
    os._exit(0)  # its threads cannot be ended


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    main()
