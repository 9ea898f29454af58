"""Steps of a model under DDP and FSDP2, over each backend, in turns."""

import os
import statistics
import time

import torch
import torch.distributed as dist
from ranks import run
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

WIDTH, BATCH, STEPS, WARM = 1020, 8, 4, 3


def model(layers):
    """24 layers: 25 million parameters."""
    torch.manual_seed(1)
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(layers)))


def wrapped(layers, mode, group):
    whole = model(layers)
    if mode.startswith("ddp"):
        return DistributedDataParallel(whole, process_group=group, gradient_as_bucket_view=True)
    if mode.startswith("fsdp"):
        mesh = DeviceMesh.from_group(group, "cpu")
        for layer in whole:
            fully_shard(layer, mesh=mesh)
        fully_shard(whole, mesh=mesh)
        if mode == "fsdp mapped":
            for module in (whole, *whole):
                module.set_allocate_memory_from_process_group_for_comm(True)
    return whole


def step(module, optimizer):
    optimizer.zero_grad(set_to_none=False)
    module(torch.ones(BATCH, WIDTH)).square().mean().backward()
    optimizer.step()


def rank_body(rank, ranks, turns, layers):
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank % len(os.sched_getaffinity(0))]})
    groups = {"tutti": dist.new_group(backend="tutti"), "gloo": dist.new_group(backend="gloo")}
    trainers = {"alone": model(layers)}
    for backend, group in groups.items():
        for mode in ("ddp", "fsdp", *(("fsdp mapped",) if backend == "tutti" else ())):
            trainers[backend, mode] = wrapped(layers, mode, group)
            for _ in range(WARM):
                trainers[backend, mode](torch.ones(BATCH, WIDTH)).square().mean().backward()
    trainers = {name: (module, torch.optim.SGD(module.parameters(), lr=1e-6)) for name, module in trainers.items()}
    times = {name: [] for name in trainers}
    for _ in range(turns):
        for name, (module, optimizer) in trainers.items():
            step(module, optimizer)
            dist.barrier()
            start = time.perf_counter()
            for _ in range(STEPS):
                step(module, optimizer)
            times[name].append((time.perf_counter() - start) / STEPS)
    return {name: 1e3 * statistics.median(of) for name, of in times.items()}


def measure(ranks, turns, layers):
    """Milliseconds of a step of rank 0, by "alone" or (backend, mode)."""
    return run(ranks, rank_body, turns, layers, within=3600)[0]
