"""PyTorch's own ways to train in parallel give the same losses over Tutti as over Gloo."""

import inspect
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
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                               parallelize_module)

try:
    from torch.distributed.tensor.experimental._context_parallel import _attention as ring
    from torch.distributed.tensor.experimental._context_parallel import _cp_custom_ops  # noqa: F401

    CONTEXT_PARALLEL = ("ring", "gather")
except ImportError:  # older versions
    from torch.distributed.tensor.experimental import _attention as ring

    CONTEXT_PARALLEL = ("ring",)

STEPS = 5


def ddp(rank, ranks):
    return train(nn.parallel.DistributedDataParallel(model(), bucket_cap_mb=0.05), STEPS, rank)


def ddp_with_hook(rank, ranks):
    parallel = nn.parallel.DistributedDataParallel(model())
    parallel.register_comm_hook(None, default_hooks.bf16_compress_hook)
    return train(parallel, STEPS, rank)


def fsdp_modules(whole):
    return [module for module in whole.modules() if isinstance(module, FSDPModule)]


def as_gloo_can(whole):
    """Gloo of older versions takes an average for a sum, which FSDP2 does not expect: there it has to divide itself."""
    for module in fsdp_modules(whole):
        module.set_force_sum_reduction_for_comms(dist.get_backend() == "gloo")
    return whole


def sharded():
    whole = model()
    for block in whole.blocks:
        fully_shard(block)
    return as_gloo_can(fully_shard(whole))


def fsdp(rank, ranks):
    return train(sharded(), STEPS, rank)


def from_the_group(whole):
    """FSDP2 takes its buffers from the backend's own memory. It is a setting of each module."""
    for module in fsdp_modules(whole):
        module.set_allocate_memory_from_process_group_for_comm(True)
    return whole


def fsdp_mapped(rank, ranks):
    return train(from_the_group(sharded()) if dist.get_backend() == "tutti" else sharded(), STEPS, rank)


def hybrid(rank, ranks):
    """Shards inside of two ranks, replicas between."""
    mesh = init_device_mesh("cpu", (ranks // 2, 2), mesh_dim_names=("replicate", "shard"))
    return train(as_gloo_can(fully_shard(model(), mesh=mesh)), STEPS, rank)


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


class Ring(torch.autograd.Function):
    """PyTorch's ring attention, with the attention operator of CPUs in place of a GPU's."""

    @staticmethod
    def forward(ctx, q, k, v):
        out, sums = ring._templated_ring_attention(ring_of_all(), 2, attention, q, k, v, is_causal=True)
        ctx.save_for_backward(q, k, v, out, sums)
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, sums = ctx.saved_tensors
        return ring._templated_ring_attention_backward(ring_of_all(), 2, attention_backward, grad, "grad_out", q, k, v,
                                                       out, sums, is_causal=True)


def ring_of_all():
    takes_group = "group" in inspect.signature(ring._templated_ring_attention).parameters  # newer versions
    return dist.group.WORLD if takes_group else init_device_mesh("cpu", (dist.get_world_size(),))


def attention(q, k, v, is_causal):
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, is_causal=is_causal)


def attention_backward(query, key, value, out, logsumexp, is_causal, grad_out):
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad_out, query, key, value, out, logsumexp, 0.0, is_causal)


def context_parallel(rank, ranks, kind):
    """Each rank has a part of each sequence. It gathers the keys and values of all, or passes them around."""
    part = LENGTH // ranks
    mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()[rank * part:(rank + 1) * part]
    ring._cp_options.enable_load_balance = False
    ring._cp_options.rotate_method = ring._RotateMethod.ALL_TO_ALL
    attend = {"ring": Ring.apply, "gather": lambda q, k, v: nn.functional.scaled_dot_product_attention(
        q, *Gather.apply(k, v), attn_mask=mask)}[kind]
    whole, losses = model(), []
    for block in whole.blocks:
        block.attention.attend = attend
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


def direct_calls():
    """How many calls' messages were read or written in place."""
    return sum(n for way, n in tutti_torch.counters()["deliveries"].items() if "mapped" in way or "direct" in way)


def mapped_buckets(rank, ranks):
    """DDP's buckets are mapped memory: what ranks lend each other is read in place. Gradients are views of them."""
    wide = nn.Sequential(*(nn.Linear(512, 512) for _ in range(4)))
    parallel = nn.parallel.DistributedDataParallel(wide, gradient_as_bucket_view=True)
    assert tutti_torch.counters()["mapped_blocks"] > 0
    tutti_torch.count_deliveries()
    for step in range(3):  # the second one makes other buckets
        before = direct_calls()
        parallel(torch.ones(4, 512)).sum().backward()
        assert direct_calls() > before, (step, tutti_torch.counters())
    counted = tutti_torch.counters()
    assert counted["mapped_bytes"] >= sum(p.nbytes for p in wide.parameters()), counted
    gloo = nn.parallel.DistributedDataParallel(model(), process_group=dist.new_group(backend="gloo"))
    assert tutti_torch.counters()["mapped_blocks"] == counted["mapped_blocks"], gloo
    return counted


def kept_memory(rank, ranks):
    """Blocks that are freed serve the next tensors, and no process but their own."""
    first = tutti_torch.empty(1 << 20).fill_(1)
    place = first.data_ptr()
    del first
    again = tutti_torch.empty((1 << 20) - 5)
    assert again.data_ptr() == place
    del again
    child = os.fork()
    if child == 0:
        mine = tutti_torch.empty(1 << 20)
        mine.fill_(2)
        os._exit(0)
    os.waitpid(child, 0)
    assert (tutti_torch.empty(1 << 20) == 1).all()


def mapped_parameters(rank, ranks):
    """FSDP2's buffers of gathered parameters and of gradients, in memory that it asks the backend for."""
    wide = nn.Sequential(*(nn.Linear(512, 512) for _ in range(4)))
    for layer in wide:
        fully_shard(layer)
    from_the_group(fully_shard(wide))
    tutti_torch.count_deliveries()
    for _ in range(3):
        wide(torch.ones(4, 512)).sum().backward()
    assert direct_calls() >= 3 * (4 + 4)  # an all-gather and a reduce-scatter of each layer and step, at least
    return tutti_torch.counters()


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
        for kind in CONTEXT_PARALLEL:
            with self.subTest(kind=kind):
                self.check(context_parallel, kind)

    def test_checkpoints(self):
        for ranks in (2, 4):
            with tempfile.TemporaryDirectory() as folder:
                self.check(checkpoint, folder, sizes=(ranks,))

    def test_buckets_in_mapped_memory(self):
        print(run(2, mapped_buckets)[0])

    def test_mapped_memory_is_kept(self):
        run(2, kept_memory)

    def test_fsdp2_in_mapped_memory(self):
        print(run(2, mapped_parameters)[0])


if __name__ == "__main__":
    unittest.main()
