"""One collective after the other on a group of each backend, in turns."""

import os
import statistics
import time

import torch
import torch.distributed as dist
from ranks import run

TURN = 0.03  # seconds that a turn of one side takes, about


def all_reduce(size, ranks, group):
    data = torch.zeros(max(1, size // 4))
    return lambda: dist.all_reduce(data, group=group)


def all_gather(size, ranks, group):
    out = torch.zeros(max(1, size // 4 // ranks) * ranks)
    mine = torch.zeros(out.numel() // ranks)
    return lambda: dist.all_gather_into_tensor(out, mine, group=group)


def reduce_scatter(size, ranks, group):
    whole = torch.zeros(max(1, size // 4 // ranks) * ranks)
    mine = torch.zeros(whole.numel() // ranks)
    return lambda: dist.reduce_scatter_tensor(mine, whole, group=group)


def all_to_all(size, ranks, group):
    whole = torch.zeros(max(1, size // 4 // ranks) * ranks)
    out = torch.zeros_like(whole)
    return lambda: dist.all_to_all_single(out, whole, group=group)


CALLS = {"all_reduce": all_reduce, "all_gather_into_tensor": all_gather, "reduce_scatter_tensor": reduce_scatter,
         "all_to_all_single": all_to_all}


def seconds(call, times):
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times


def slowest(value, group):
    told = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(told, dist.ReduceOp.MAX, group=group)
    return told.item()


def rank_body(rank, ranks, sizes, turns):
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank % len(os.sched_getaffinity(0))]})
    groups = {"tutti": dist.new_group(backend="tutti"), "gloo": dist.new_group(backend="gloo")}
    alone = [dist.new_group([r], backend="tutti") for r in range(ranks)][rank]
    rows = []
    for name, make in CALLS.items():
        for size in sizes:
            calls, times, figures = {}, {}, {backend: [] for backend in groups}
            for backend, group in groups.items():
                calls[backend] = make(size, ranks, group)
                calls[backend]()
                once = slowest(seconds(calls[backend], 3), group)
                times[backend] = int(min(2000, max(2, TURN / once)))
            for _ in range(turns):
                for backend, group in groups.items():
                    dist.barrier(group)
                    figures[backend].append(slowest(seconds(calls[backend], times[backend]), group))
            empty = make(8, 1, alone)
            call = min(seconds(empty, 200) for _ in range(5))
            rows.append((name, size, *(1e6 * statistics.median(figures[b]) for b in ("tutti", "gloo")), 1e6 * call))
    return rows


def measure(ranks, sizes, turns):
    """Rows of call, bytes, µs of tutti and of Gloo, µs of the call alone."""
    return run(ranks, rank_body, sizes, turns, within=1800)[0]
