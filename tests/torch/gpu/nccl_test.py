"""PyTorch's own backend for NVIDIA's GPUs, ProcessGroupNCCL, on libnccl.so.2 of this tree: what it calls, in its order.

Its watchdog's thread asks for errors, and its streams and events are real; see stand_in.py for what is not.
"""

import os
import time
import unittest
from unittest import mock

import gpu_collectives_test as collectives_test
import torch
import torch.distributed as dist
from stand_in import eventually, same, skipped, use_gpu
from ranks import run

nccl = {"backend": "nccl"}
QUIET = {"TORCH_CPP_LOG_LEVEL": "FATAL"}


def backend():
    return dist.group.WORLD._get_backend(torch.device("cuda"))


def whose(rank, ranks):
    """The library is Tutti's, whatever else this PyTorch has found: it marks ids where NCCL_COMM_ID is set."""
    use_gpu(rank)
    assert torch.cuda.nccl.unique_id()[:5] == b"tutti"


def collectives(rank, ranks):
    """As tutti's own backend, but lists of tensors of one length, and the types and operators of NCCL."""
    device = use_gpu(rank)
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8):
        for count in (1, 7, 70001):
            mine = collectives_test.data(rank, count, dtype)
            all_of = [collectives_test.data(r, count, dtype) for r in range(ranks)]
            reduced, whole = mine.cuda(), torch.empty(ranks * count, dtype=dtype, device=device)
            dist.all_reduce(reduced)
            same(reduced, collectives_test.summed(ranks, count, dtype))
            dist.all_gather_into_tensor(whole, mine.cuda())
            same(whole, torch.cat(all_of))
            part = torch.empty_like(mine, device=device)
            dist.reduce_scatter_tensor(part, torch.cat([mine] * ranks).cuda())
            same(part, collectives_test.summed(ranks, count, dtype))
            dist.broadcast(reduced, 1)
            dist.reduce(reduced, 0, dist.ReduceOp.MAX)
            dist.all_to_all_single(whole, torch.cat([mine] * ranks).cuda())
            same(whole, torch.cat(all_of))
    scaled = torch.ones(9).cuda()
    dist.all_reduce(scaled, dist._make_nccl_premul_sum(0.5))
    same(scaled, torch.full((9,), ranks / 2))
    parts = [torch.empty(4, device=device) for _ in range(ranks)]
    dist.all_gather(parts, torch.full((4,), float(rank)).cuda())
    for r in range(ranks):
        same(parts[r], torch.full((4,), float(r)))
    dist.gather(torch.full((4,), float(rank)).cuda(), parts if rank == 0 else None, 0)
    dist.scatter(parts[0], [torch.full((4,), float(r)).cuda() for r in range(ranks)] if rank == 0 else None, 0)
    same(parts[0], torch.full((4,), float(rank)))


def coalesced(rank, ranks):
    """Groups of calls, batches of messages, messages of two ranks."""
    device = use_gpu(rank)
    coalescing = dist.distributed_c10d._coalescing_manager
    tensors = [torch.ones(count).cuda() for count in (1, 3, 1000)]
    with coalescing(device=device, async_ops=True) as pending:
        for tensor in tensors:
            dist.all_reduce(tensor)
    pending.wait()
    for tensor in tensors:
        same(tensor, torch.full((tensor.numel(),), float(ranks)))
    outs = [torch.empty(ranks * n, device=device) for n in (2, 3)]
    with coalescing(device=device):
        for out, count in zip(outs, (2, 3)):
            dist.all_gather_into_tensor(out, torch.full((count,), float(rank)).cuda())
    same(outs[1], torch.arange(float(ranks)).repeat_interleave(3))
    mine, other = torch.full((1000,), float(rank)).cuda(), torch.empty(1000, device=device)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, (rank + 1) % ranks),
                                        dist.P2POp(dist.irecv, other, (rank - 1) % ranks)]):
        work.wait()
    same(other, torch.full((1000,), float((rank - 1) % ranks)))
    if rank < 2:
        dist.send(mine, 1) if rank == 0 else dist.recv(other, 0)
    if rank == 1:
        same(other, torch.zeros(1000))


def graph(rank, ranks):
    use_gpu(rank)
    source, data = torch.ones(1000).cuda(), torch.zeros(1000).cuda()

    def step():
        data.copy_(source)
        dist.all_reduce(data)
        dist.all_reduce(data, async_op=True).wait()

    step()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        time.sleep(0.2)  # the watchdog looks meanwhile
        step()
    for value in (1.0, 2.0):
        source.copy_(torch.full((1000,), value).cuda())
        captured.replay()
        torch.cuda.synchronize()
        same(data, torch.full((1000,), value * ranks * ranks))
    before = skipped()
    dist.all_reduce(data)
    assert skipped() == before


def communicators(rank, ranks):
    """With the device from the start: communicators made at once, split, by a new group, and abandoned."""
    device = use_gpu(rank)
    dist.destroy_process_group()
    dist.init_process_group("nccl", init_method="env://", rank=rank, world_size=ranks, device_id=device)
    tensor = torch.ones(10).cuda()
    dist.all_reduce(tensor)
    half = dist.split_group(split_ranks=[[0, 1]] if ranks == 2 else [[0, 1], list(range(2, ranks))])
    dist.all_reduce(tensor, group=half)
    same(tensor, torch.full((10,), float(ranks * (2 if rank < 2 else ranks - 2))))
    everyone = dist.new_group()
    dist.all_reduce(tensor, group=everyone)
    dist.barrier(device_ids=[device.index])
    torch.cuda.synchronize()


def aborted(rank, ranks):
    """A kernel hangs, since the other rank never calls: abort ends it, and the watchdog of the other rank hears of it."""
    device = use_gpu(rank)
    data = torch.ones(10).cuda()
    dist.all_reduce(data)
    torch.cuda.synchronize()
    if rank == 0:
        dist.all_reduce(data, async_op=True)
        backend().abort()
        torch.cuda.synchronize(device)


def late(rank, ranks):
    """The watchdog finds the call that is late, and aborts the communicator."""
    use_gpu(rank)
    data = torch.ones(10).cuda()
    dist.all_reduce(data)
    torch.cuda.synchronize()
    store = dist.distributed_c10d._get_default_store()
    if rank == 1:
        eventually(lambda: store.check(["late"]))
        return
    work = dist.all_reduce(data, async_op=True)
    torch.cuda.synchronize()  # it returns because the kernel was ended
    eventually(work.is_completed)
    store.set("late", "")


class ProcessGroupNCCL(unittest.TestCase):
    def on_all(self, function, ranks=(2, 3), environment=(), **kinds):
        for count in ranks:
            with self.subTest(ranks=count), mock.patch.dict(os.environ, QUIET | dict(environment)):
                run(count, function, **nccl, **kinds)

    def test_whose(self):
        self.on_all(whose, ranks=(2,), environment={"NCCL_COMM_ID": "127.0.0.1:1"})

    def test_collectives(self):
        self.on_all(collectives)

    def test_coalesced(self):
        self.on_all(coalesced)

    def test_graph(self):
        self.on_all(graph, ranks=(2,))

    def test_communicators(self):
        import socket

        for count in (2, 3):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = str(probe.getsockname()[1])
            address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            self.on_all(communicators, ranks=(count,), environment=address)

    def test_made_in_the_background(self):
        self.on_all(collectives, ranks=(2,), environment={"TORCH_NCCL_USE_COMM_NONBLOCKING": "1"})
        self.on_all(coalesced, ranks=(2,), environment={"TORCH_NCCL_USE_COMM_NONBLOCKING": "1"})

    def test_abort(self):
        self.on_all(aborted, ranks=(2,))

    def test_late(self):
        self.on_all(late, ranks=(2,), timeout=3, environment={"TORCH_NCCL_ASYNC_ERROR_HANDLING": "2"})


if __name__ == "__main__":
    unittest.main()
