"""Every collective on tensors of a GPU, against what PyTorch computes on the host."""

import unittest
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist
from stand_in import same, skipped, use_gpu
from ranks import run

RANKS = (2, 3)
COUNTS = (0, 1, 7, 1000, 70001)
REDUCED = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8,
           torch.complex64, torch.float8_e4m3fn)
MOVED = (*REDUCED, torch.bool, torch.int16, torch.float8_e5m2fnuz)


def data(rank, count, dtype):
    numbers = (torch.arange(count, dtype=torch.int64) * 7 + rank * 5) % 3
    return torch.complex(numbers.double(), numbers.double() + 1).to(dtype) if dtype.is_complex else numbers.to(dtype)


def bits(tensor):
    return tensor.contiguous().view(-1).view(torch.uint8)


def joined(tensors):
    return torch.cat([bits(t) for t in tensors]).view(tensors[0].dtype) if tensors[0].numel() else tensors[0]


def summed(ranks, count, dtype):
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return sum(data(r, count, dtype).to(wide) for r in range(ranks)).to(dtype)


def every_type(rank, ranks):
    use_gpu(rank)
    for dtype in MOVED:
        for count in COUNTS:
            mine, all_of = data(rank, count, dtype), [data(r, count, dtype) for r in range(ranks)]
            out = [torch.empty_like(mine, device="cuda") for _ in range(ranks)]
            dist.all_gather(out, mine.cuda())
            for actual, expected in zip(out, all_of):
                same(actual, expected)
            whole = torch.empty(ranks * count, dtype=dtype, device="cuda")
            dist.all_gather_into_tensor(whole, mine.cuda())
            same(whole, joined(all_of))
            moved = mine.cuda()
            dist.broadcast(moved, 1)
            same(moved, all_of[1])
            dist.all_to_all_single(whole, joined([data(rank * ranks + r, count, dtype) for r in range(ranks)]).cuda())
            same(whole, joined([data(r * ranks + rank, count, dtype) for r in range(ranks)]))
            if dtype in REDUCED:
                reduced = mine.cuda()
                dist.all_reduce(reduced)
                same(reduced, summed(ranks, count, dtype))
                part = torch.empty(count, dtype=dtype, device="cuda")
                dist.reduce_scatter_tensor(part, joined([mine] * ranks).cuda())
                same(part, summed(ranks, count, dtype))
    assert skipped() == 0


def every_operator(rank, ranks):
    use_gpu(rank)
    op = dist.ReduceOp
    all_of = torch.stack([data(r, 1000, torch.int64) + 1 for r in range(ranks)])
    cases = {op.SUM: all_of.sum(0), op.PRODUCT: all_of.prod(0), op.MIN: all_of.amin(0), op.MAX: all_of.amax(0),
             op.BAND: all_of[0], op.BOR: all_of[0], op.BXOR: all_of[0], op.AVG: all_of.sum(0) // ranks}
    for row in all_of[1:]:
        cases[op.BAND], cases[op.BOR] = cases[op.BAND] & row, cases[op.BOR] | row
        cases[op.BXOR] = cases[op.BXOR] ^ row
    for operator, expected in cases.items():
        reduced = all_of[rank].cuda()
        dist.all_reduce(reduced, operator)
        same(reduced, expected)
        reduced = all_of[rank].cuda()
        dist.reduce(reduced, ranks - 1, operator)
        if rank == ranks - 1:
            same(reduced, expected)
    truth = torch.tensor([rank == 0, True, False]).cuda()
    dist.all_reduce(truth)
    assert truth.tolist() == [True, True, False]
    for factor in (0.5, torch.tensor([0.5]), torch.tensor([0.5]).cuda()):
        scaled = data(rank, 1000, torch.float32).cuda()
        dist.all_reduce(scaled, dist._make_nccl_premul_sum(factor))
        same(scaled, summed(ranks, 1000, torch.float32) / 2)
    assert skipped() == 0


def blocks(rank, ranks):
    """All-to-all, gather, scatter; blocks of different lengths."""
    use_gpu(rank)

    def full(count, value):
        return torch.full((count,), float(value))

    def empty(*sizes):
        return torch.empty(*sizes, device="cuda")

    sends, recvs = [r + rank for r in range(ranks)], [rank + r for r in range(ranks)]
    out = empty(sum(recvs), 2)
    dist.all_to_all_single(out, torch.full((sum(sends), 2), float(rank)).cuda(), recvs, sends)
    same(out, torch.cat([torch.full((rank + r, 2), float(r)) for r in range(ranks)]))
    outs = [empty(rank + r) for r in range(ranks)]
    dist.all_to_all(outs, [full(r + rank, rank).cuda() for r in range(ranks)])
    for r in range(ranks):
        same(outs[r], full(rank + r, r))
    outs = [empty(r) for r in range(ranks)]
    dist.all_gather(outs, full(rank, rank).cuda())
    for r in range(ranks):
        same(outs[r], full(r, r))
    part = empty(rank + 1)
    dist.reduce_scatter(part, [full(r + 1, 1).cuda() for r in range(ranks)])
    same(part, full(rank + 1, ranks))
    for root in range(ranks):
        outs = [empty(4) for _ in range(ranks)] if rank == root else None
        dist.gather(full(4, rank).cuda(), outs, root)
        for r, block in enumerate(outs or []):
            same(block, full(4, r))
        part = empty(4)
        dist.scatter(part, [full(4, r * 2).cuda() for r in range(ranks)] if rank == root else None, root)
        same(part, full(4, 2 * rank))
    assert skipped() == 0


def together(rank, ranks):
    """Several calls as one; calls on memory of the host and of the GPU in one group."""
    use_gpu(rank)
    coalescing = dist.distributed_c10d._coalescing_manager
    tensors = [torch.full((count,), float(rank)).cuda() for count in (1, 0, 1000)]
    with coalescing(async_ops=True) as pending:
        for tensor in tensors:
            dist.all_reduce(tensor)
    pending.wait()
    for tensor in tensors:
        same(tensor, torch.full((tensor.numel(),), float(sum(range(ranks)))))
    outs = [torch.empty(ranks * n, device="cuda") for n in (2, 3)]
    with coalescing():
        for out, count in zip(outs, (2, 3)):
            dist.all_gather_into_tensor(out, torch.full((count,), float(rank)).cuda())
    for out, count in zip(outs, (2, 3)):
        same(out, torch.arange(float(ranks)).repeat_interleave(count))
    parts = [torch.empty(n, device="cuda") for n in (2, 3)]
    with coalescing():
        for part in parts:
            dist.reduce_scatter_tensor(part, torch.ones(ranks * part.numel()).cuda())
    for part in parts:
        same(part, torch.full((part.numel(),), float(ranks)))
    # Calls of several kinds: torch asks for the device then.
    device = torch.device("cuda", torch.cuda.current_device())
    summed, root = torch.ones(5).cuda(), torch.full((5,), float(rank)).cuda()
    lists = [torch.empty(5, device="cuda") for _ in range(ranks)]
    with coalescing(device=device, async_ops=True) as pending:
        dist.all_reduce(summed, async_op=True)
        dist.broadcast(root, 1, async_op=True)
        dist.all_gather(lists, torch.full((5,), float(rank)).cuda(), async_op=True)  # the result is copied afterwards
    pending.wait()
    same(summed, torch.full((5,), float(ranks)))
    same(root, torch.full((5,), 1.0))
    for r in range(ranks):
        same(lists[r], torch.full((5,), float(r)))
    host = torch.ones(3)
    dist.all_reduce(host)
    assert host.tolist() == [ranks] * 3
    objects = [None] * ranks
    dist.all_gather_object(objects, {"rank": rank})
    assert [o["rank"] for o in objects] == list(range(ranks))
    dist.barrier()
    dist.barrier(device_ids=[torch.cuda.current_device()])
    assert skipped() == 0


def messages(rank, ranks):
    use_gpu(rank)
    following, before = (rank + 1) % ranks, (rank - 1) % ranks
    for count in (1, 1000, 300_000):
        mine, other = torch.full((count,), float(rank)).cuda(), torch.empty(count, device="cuda")
        # Every rank sends first: no order of connecting is right for all of them.
        works = [dist.isend(mine, following), dist.irecv(other, before)]
        for work in works:
            work.wait()
        same(other, torch.full((count,), float(before)))
        back = torch.empty(count, device="cuda")
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, other, before), dist.P2POp(dist.irecv, back, following)])
        for work in works:
            work.wait()
        same(back, mine.cpu())
    for value in (3.0, 4.0):  # in order
        if rank == 0:
            dist.send(torch.full((9,), value).cuda(), 1)
        elif rank == 1:
            dist.recv(other := torch.empty(9, device="cuda"), 0)
            same(other, torch.full((9,), value))
    assert skipped() == 0


def groups(rank, ranks):
    """Groups beside each other, a part of the ranks, one that is split, one whose GPU is known from the start."""
    device = use_gpu(rank)
    everyone, pair = dist.new_group(), dist.new_group([0, 1])
    first, second = torch.ones(1000).cuda(), torch.ones(1000).cuda()
    works = [dist.all_reduce(first, async_op=True), dist.all_reduce(second, group=everyone, async_op=True)]
    for work in works:
        work.wait()
    same(first, torch.full((1000,), float(ranks)))
    same(second, torch.full((1000,), float(ranks)))
    if rank < 2:
        dist.all_reduce(first, group=pair)
        same(first, torch.full((1000,), 2.0 * ranks))
    dist.destroy_process_group()
    dist.init_process_group("cpu:gloo,cuda:tutti", init_method="env://", rank=rank, world_size=ranks, device_id=device)
    assert dist.group.WORLD._get_backend(device).name() == "tutti"
    half = dist.split_group(split_ranks=[[0, 1], list(range(2, ranks))] if ranks > 2 else [[0, 1]])
    tensor = torch.ones(10).cuda()
    dist.all_reduce(tensor)
    dist.all_reduce(tensor, group=half)
    same(tensor, torch.full((10,), float(ranks * (2 if rank < 2 else ranks - 2))))
    host = torch.ones(1)
    dist.all_reduce(host)
    assert host.item() == ranks


def new_thread(rank, ranks):
    """A thread's first use of the GPU makes the communicator."""
    device = use_gpu(rank)
    data = torch.ones(10).cuda()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(dist.group.WORLD._get_backend(device).eager_connect_single_device, device).result()
    dist.all_reduce(data)
    same(data, torch.full((10,), float(ranks)))


class Collectives(unittest.TestCase):
    def on_all(self, function):
        for ranks in RANKS:
            with self.subTest(ranks=ranks):
                run(ranks, function)

    def test_every_type(self):
        self.on_all(every_type)

    def test_every_operator(self):
        self.on_all(every_operator)

    def test_blocks(self):
        self.on_all(blocks)

    def test_together(self):
        self.on_all(together)

    def test_messages(self):
        self.on_all(messages)

    def test_new_thread(self):
        self.on_all(new_thread)

    def test_groups(self):
        import os
        import socket

        for ranks in RANKS:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(probe.getsockname()[1])}
            with self.subTest(ranks=ranks):
                run(ranks, groups)


if __name__ == "__main__":
    unittest.main()
