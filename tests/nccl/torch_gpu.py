#!/usr/bin/env python3
"""torch.distributed with the backend nccl: `tools/gpu_check clients` runs it with libnccl.so.2 preloaded.

    torch_gpu.py [--ranks 2] [--backend nccl] [--device cuda]

Ranks share the GPUs in turn; with one GPU, all of them use it. All collectives, then DDP and FSDP2 of a small transformer: after
some steps its weights are those of one process that had the whole batch. `--backend gloo --device cpu` tests the program itself.
"""
import argparse
import copy
import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

SIZE, STEPS = 1000, 4


def expect(what: str, got: torch.Tensor, wanted: torch.Tensor | float) -> None:
    wanted = torch.as_tensor(wanted, dtype=got.dtype, device=got.device).expand_as(got)
    if not torch.allclose(got.float(), wanted.float(), rtol=1e-4, atol=1e-5):
        raise AssertionError(f"rank {dist.get_rank()}: {what}: {got.flatten()[:4].tolist()}, not {wanted.flatten()[:4].tolist()}")


def collectives(device: torch.device, dtype: torch.dtype) -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine = torch.full((SIZE,), rank + 1, dtype=dtype, device=device)
    total, blocks = ranks * (ranks + 1) // 2, torch.arange(1, ranks + 1, device=device)
    for op, wanted in ((dist.ReduceOp.SUM, total), (dist.ReduceOp.MAX, ranks), (dist.ReduceOp.MIN, 1)):
        dist.all_reduce(out := mine.clone(), op)
        expect(f"all_reduce {op}", out, wanted)
    dist.reduce(out := mine.clone(), ranks - 1)
    if rank == ranks - 1:
        expect("reduce", out, total)
    dist.broadcast(out := mine.clone(), ranks - 1)
    expect("broadcast", out, ranks)
    every = torch.empty(ranks * SIZE, dtype=dtype, device=device)
    dist.all_gather_into_tensor(every, mine)
    expect("all_gather", every.view(ranks, SIZE), blocks[:, None])
    dist.reduce_scatter_tensor(out, every)
    expect("reduce_scatter", out, ranks * (rank + 1))
    parts = [torch.empty_like(mine) for _ in range(ranks)]
    dist.all_gather(parts, mine)
    expect("all_gather of a list", torch.stack(parts), blocks[:, None])
    sent = (torch.arange(ranks, device=device) + rank * ranks).repeat_interleave(SIZE).to(dtype)
    dist.all_to_all_single(every, sent)
    expect("all_to_all", every.view(ranks, SIZE), (torch.arange(ranks, device=device) * ranks + rank)[:, None])
    dist.gather(mine, parts if rank == 0 else None, 0)
    if rank == 0:
        expect("gather", torch.stack(parts), blocks[:, None])
    dist.scatter(out, [part * 2 for part in parts] if rank == 0 else None, 0)
    expect("scatter", out, 2 * (rank + 1))
    requests = dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, (rank + 1) % ranks),
                                       dist.P2POp(dist.irecv, out, (rank - 1) % ranks)])
    for request in requests:
        request.wait()
    expect("send and receive", out, (rank - 1) % ranks + 1)
    dist.barrier()
    half = dist.new_group(list(range(ranks - 1)))  # another communicator, without the last rank
    if rank < ranks - 1:
        dist.all_reduce(out := mine.clone(), group=half)
        expect("all_reduce of a group", out, total - ranks)


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, 32)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True) for _ in range(2))
        self.head = nn.Linear(32, 64)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def train(model: nn.Module, batches: list[torch.Tensor]) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for tokens in batches:
        logits = model(tokens[:, :-1])
        nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()


def training(device: torch.device) -> None:
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(7)
    alone = Transformer().to(device)
    replicated, sharded = copy.deepcopy(alone), copy.deepcopy(alone)
    batches = [torch.randint(64, (2 * ranks, 17)).to(device) for _ in range(STEPS)]
    part = [batch[2 * rank : 2 * rank + 2] for batch in batches]
    train(alone, batches)
    train(DistributedDataParallel(replicated), part)
    for (name, parameter), wanted in zip(replicated.named_parameters(), alone.parameters()):
        expect(f"DDP: {name}", parameter.data, wanted.data)
    for layer in sharded.layers:
        fully_shard(layer)
    fully_shard(sharded)
    train(sharded, part)
    for (name, parameter), wanted in zip(sharded.named_parameters(), alone.parameters()):
        expect(f"FSDP2: {name}", parameter.data.full_tensor(), wanted.data)


def run(rank: int, options: argparse.Namespace, port: int) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    device = torch.device(options.device)
    if options.device == "cuda":
        device = torch.device("cuda", rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
    dist.init_process_group(options.backend, rank=rank, world_size=options.ranks)
    for dtype in (torch.float32, torch.int64, torch.bfloat16):
        collectives(device, dtype)
    training(device)
    dist.destroy_process_group()
    if rank == 0:
        print(f"{options.backend}, {options.ranks} ranks: all collectives; DDP and FSDP2 are equal to one process")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--backend", default="nccl")
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit("torch_gpu.py: there is no GPU; --backend gloo --device cpu tests the program itself")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free_port = probe.getsockname()[1]
    mp.spawn(run, (arguments, free_port), nprocs=arguments.ranks)
