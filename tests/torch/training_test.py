"""PyTorch's own ways to train in parallel give the same losses over Tutti as over Gloo."""

import os
import tempfile
import unittest

import torch
import torch._dynamo  # noqa: F401: DDP wants it, and each rank is a fork of this process
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import tutti_torch
from ranks import run
from small_model import LENGTH, Block, batch, loss_of, model, train
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.experimental._context_parallel import _cp_custom_ops  # noqa: F401
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                               parallelize_module)

STEPS = 5


def ddp(rank, ranks):
    return train(nn.parallel.DistributedDataParallel(model(), bucket_cap_mb=0.05), STEPS, rank)


def ddp_with_hook(rank, ranks):
    parallel = nn.parallel.DistributedDataParallel(model())
    parallel.register_comm_hook(None, default_hooks.bf16_compress_hook)
    return train(parallel, STEPS, rank)


def sharded():
    whole = model()
    for block in whole.blocks:
        fully_shard(block)
    return fully_shard(whole)


def fsdp(rank, ranks):
    return train(sharded(), STEPS, rank)


def fsdp_mapped(rank, ranks):
    """Buffers from the backend's own memory, where it has some."""
    whole = sharded()
    if dist.get_backend() == "tutti":
        whole.set_allocate_memory_from_process_group_for_comm(True)
    return train(whole, STEPS, rank)


def hybrid(rank, ranks):
    """Shards inside of two ranks, replicas between."""
    mesh = init_device_mesh("cpu", (ranks // 2, 2), mesh_dim_names=("replicate", "shard"))
    return train(fully_shard(model(), mesh=mesh), STEPS, rank)


def tensor_parallel(rank, ranks):

    whole, mesh = model(), init_device_mesh("cpu", (ranks,))
    column, row = ColwiseParallel(), RowwiseParallel()
    for block in whole.blocks:
        plan = {"attention.query": column, "attention.key": column, "attention.value": column, "attention.out": row}
        parallelize_module(block, mesh, plan | {"up": column, "down": row})
    return train(whole, STEPS, 0)


def sequence_parallel(rank, ranks):
    """DTensor's other collectives: all-gathers and reduce-scatters of activations."""
    mesh = init_device_mesh("cpu", (ranks,))
    torch.manual_seed(1)
    whole = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32), nn.Linear(32, 64))
    parallelize_module(whole, mesh, {"0": SequenceParallel(), "1": ColwiseParallel(input_layouts=Shard(1)),
                                     "3": RowwiseParallel(output_layouts=Shard(1)),
                                     "4": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())})
    whole = parallelize_module(whole, mesh, PrepareModuleInput(input_layouts=Replicate(),
                                                               desired_input_layouts=Shard(1)))
    optimizer, losses = torch.optim.Adam(whole.parameters(), lr=1e-2), []
    for step in range(STEPS):
        tokens, targets = batch(step, 0)
        loss = loss_of(whole(nn.functional.one_hot(tokens, 64)[..., :32].float()), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


class Stage(nn.Module):
    """A part of the model's blocks; the first and the last rank have its ends."""
    def __init__(self, whole, blocks, first, last):
        super().__init__()
        self.ends = nn.ModuleDict(({"tokens": whole.tokens, "places": whole.places} if first else {})
                                  | ({"head": whole.head} if last else {}))
        self.blocks, self.first, self.last = nn.ModuleList(blocks), first, last

    def forward(self, x):
        if self.first:
            x = self.ends["tokens"](x) + self.ends["places"](torch.arange(x.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.ends["head"](x) if self.last else x


def pipeline(rank, ranks):
    whole, losses = model(), []
    torch.manual_seed(2)
    blocks = [*whole.blocks, *(Block() for _ in range(ranks - len(whole.blocks)))]
    share = len(blocks) // ranks
    module = Stage(whole, blocks[rank * share:(rank + 1) * share], rank == 0, rank == ranks - 1)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-2)
    for kind in (ScheduleGPipe, Schedule1F1B):
        stage = PipelineStage(module, rank, ranks, torch.device("cpu"))
        schedule = kind(stage, n_microbatches=4, loss_fn=loss_of)
        for step in range(STEPS):
            tokens, targets = batch(step, 0)
            optimizer.zero_grad()
            of_parts = []
            if rank == 0:
                schedule.step(tokens, target=targets, losses=of_parts)
            else:
                schedule.step(target=targets, losses=of_parts)
            optimizer.step()
            losses.append(sum(loss.item() for loss in of_parts) if rank == ranks - 1 else 0.0)
    return losses


class Gather(torch.autograd.Function):
    """PyTorch's operator of context parallel training, on the sequence's dimension."""

    @staticmethod
    def forward(ctx, k, v):
        return torch.ops.cplib.flex_cp_allgather(k, v, 2, dist.group.WORLD.group_name)

    @staticmethod
    def backward(ctx, grad_k, grad_v):
        return torch.ops.cplib.flex_cp_allgather_backward(grad_k.contiguous(), grad_v.contiguous(), 2,
                                                          dist.group.WORLD.group_name)


def context_parallel(rank, ranks):
    part = LENGTH // ranks
    mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()[rank * part:(rank + 1) * part]
    whole, losses = model(), []
    for block in whole.blocks:
        block.attention.gather = lambda k, v: (*Gather.apply(k, v), mask)
    optimizer = torch.optim.Adam(whole.parameters(), lr=1e-2)
    for step in range(STEPS):
        tokens, targets = (t[:, rank * part:(rank + 1) * part] for t in batch(step, 0))
        optimizer.zero_grad()
        loss = loss_of(whole(tokens, rank * part), targets)
        loss.backward()
        for parameter in whole.parameters():
            dist.all_reduce(parameter.grad, dist.ReduceOp.SUM)
            parameter.grad /= ranks
        optimizer.step()
        losses.append(loss.item())
    return losses


def checkpoint(rank, ranks, folder):
    folder = os.path.join(folder, dist.get_backend())
    whole = sharded()
    optimizer = torch.optim.Adam(whole.parameters(), lr=1e-2)
    losses = train(whole, 3, rank, optimizer)
    weights, moments = get_state_dict(whole, optimizer)
    dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=folder)
    expected = train(whole, 3, rank, optimizer, first_step=3)
    again = sharded()
    optimizer = torch.optim.Adam(again.parameters(), lr=1e-2)
    weights, moments = get_state_dict(again, optimizer)
    dcp.load({"model": weights, "optimizer": moments}, checkpoint_id=folder)
    set_state_dict(again, optimizer, model_state_dict=weights, optim_state_dict=moments)
    resumed = train(again, 3, rank, optimizer, first_step=3)
    assert resumed == expected, (resumed, expected)
    return losses + resumed


def mapped_buckets(rank, ranks):
    """DDP's buckets in mapped memory: what ranks lend each other is read in place."""
    with tutti_torch.mapped_memory(4096):
        wide = nn.Sequential(*(nn.Linear(512, 512) for _ in range(4)))
        parallel = nn.parallel.DistributedDataParallel(wide, gradient_as_bucket_view=True)
        tutti_torch.count_deliveries()
        for _ in range(3):
            parallel(torch.ones(4, 512)).sum().backward()
    counted = tutti_torch.counters()
    direct = sum(n for way, n in counted["deliveries"].items() if "mapped" in way or "direct" in way)
    assert counted["mapped_blocks"] > 0 and direct > 0, counted
    return counted


class Training(unittest.TestCase):
    def check(self, body, *args, sizes=(2, 4)):
        for ranks in sizes:
            with self.subTest(ranks=ranks):
                expected = run(ranks, body, *args, backend="gloo")
                actual = run(ranks, body, *args)
                worst = max(abs(a - b) for one, other in zip(expected, actual) for a, b in zip(one, other))
                print(f"{body.__name__}, {ranks} ranks: losses {actual[-1][0]:.6f} … {actual[-1][-1]:.6f}, "
                      f"differ by {worst:.1e}")
                self.assertLessEqual(worst, 1e-6)

    def test_ddp(self):
        self.check(ddp)

    def test_ddp_with_a_hook(self):
        self.check(ddp_with_hook, sizes=(2,))

    def test_fsdp2(self):
        self.check(fsdp)
        self.check(fsdp_mapped)

    def test_hybrid_shards(self):
        self.check(hybrid, sizes=(4,))

    def test_tensor_parallel(self):
        self.check(tensor_parallel)
        self.check(sequence_parallel)

    def test_pipelining(self):
        self.check(pipeline)

    def test_context_parallel(self):
        self.check(context_parallel)

    def test_checkpoints(self):
        for ranks in (2, 4):
            with tempfile.TemporaryDirectory() as folder:
                self.check(checkpoint, folder, sizes=(ranks,))

    def test_buckets_in_mapped_memory(self):
        print(run(2, mapped_buckets)[0])


if __name__ == "__main__":
    unittest.main()
