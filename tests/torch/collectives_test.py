"""Every collective, type and operator against what PyTorch computes on all ranks' inputs."""

import unittest

import torch
import torch.distributed as dist
from ranks import error_of, run

RANKS = (2, 3)
COUNTS = (0, 1, 7, 1000, 70001)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SMALL_FLOATS = (torch.float8_e4m3fn, torch.float8_e5m2)
COMPLEX = (torch.complex32, torch.complex64, torch.complex128)
MOVED_ONLY = (torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
ALL = (torch.bool, *INTEGERS, *FLOATS, *SMALL_FLOATS, *COMPLEX, *MOVED_ONLY)


def data(rank, count, dtype, most=3):
    """Small whole numbers, other ones on each rank, whose sums every type holds."""
    numbers = (torch.arange(count, dtype=torch.int64) * 7 + rank * 5) % most
    if dtype.is_complex:
        return torch.complex(numbers.double(), (numbers + 1).double() % most).to(dtype)
    return numbers.to(dtype)


def bits(tensor):
    """Comparable: some types have no comparison of their own."""
    return tensor.contiguous().view(-1).view(torch.uint8)


def same(actual, expected):
    assert actual.dtype == expected.dtype and actual.shape == expected.shape, (actual, expected)
    assert torch.equal(bits(actual), bits(expected)), (actual, expected)


def summed(ranks, count, dtype):
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return sum(data(r, count, dtype).to(wide) for r in range(ranks)).to(dtype)


def every_type(rank, ranks):
    for dtype in ALL:
        for count in COUNTS:
            mine, all_of = data(rank, count, dtype), [data(r, count, dtype) for r in range(ranks)]
            out = [torch.empty_like(mine) for _ in range(ranks)]
            dist.all_gather(out, mine)
            for actual, expected in zip(out, all_of):
                same(actual, expected)
            whole = torch.empty(ranks * count, dtype=dtype)
            dist.all_gather_into_tensor(whole, mine)
            same(whole, torch.cat([bits(t) for t in all_of]).view(dtype) if count else whole)
            moved = mine.clone() if rank == 1 else torch.empty_like(mine)
            dist.broadcast(moved, 1)
            same(moved, all_of[1])
            if dtype in MOVED_ONLY:
                continue
            reduced = mine.clone()
            dist.all_reduce(reduced)
            if dtype != torch.bool:
                same(reduced, summed(ranks, count, dtype))
            else:
                same(reduced, torch.stack(all_of).any(0))
            mine = torch.cat([bits(data(rank + r, count, dtype)) for r in range(ranks)]).view(dtype)
            part = torch.empty(count, dtype=dtype)
            dist.reduce_scatter_tensor(part, mine)
            if dtype != torch.bool and not dtype.is_complex:
                same(part, sum(data(rank + r, count, dtype).double() for r in range(ranks)).to(dtype))


def every_operator(rank, ranks):
    op = dist.ReduceOp
    for count in COUNTS:
        for dtype in (torch.int64, torch.uint8, torch.float32):
            all_of = torch.stack([data(r, count, dtype) + (dtype != torch.uint8) for r in range(ranks)])
            cases = {op.SUM: all_of.sum(0), op.PRODUCT: all_of.prod(0), op.MIN: all_of.amin(0), op.MAX: all_of.amax(0),
                     op.AVG: (all_of.double().sum(0) / ranks).to(dtype)}
            if not dtype.is_floating_point:
                fold = torch.zeros_like(all_of[0])
                for row in all_of:
                    fold ^= row
                both, either = all_of[0].clone(), all_of[0].clone()
                for row in all_of[1:]:
                    both &= row
                    either |= row
                cases |= {op.BAND: both, op.BOR: either, op.BXOR: fold}
            for operator, expected in cases.items():
                reduced = all_of[rank].clone()
                dist.all_reduce(reduced, operator)
                assert torch.allclose(reduced.double(), expected.to(dtype).double()), (operator, dtype, reduced)
                reduced = all_of[rank].clone()
                dist.reduce(reduced, ranks - 1, operator)
                if rank == ranks - 1:
                    assert torch.allclose(reduced.double(), expected.to(dtype).double()), (operator, dtype)
        scaled = data(rank, count, torch.float32)
        dist.all_reduce(scaled, dist._make_nccl_premul_sum(0.5))
        same(scaled, summed(ranks, count, torch.float32) / 2)
        scaled = data(rank, count, torch.float32)
        dist.all_reduce(scaled, dist._make_nccl_premul_sum(torch.tensor([2.0])))
        same(scaled, summed(ranks, count, torch.float32) * 2)
    truth = torch.tensor([rank == 0, True, False])
    for operator, expected in ((op.SUM, [True, True, False]), (op.PRODUCT, [False, True, False]),
                               (op.BAND, [False, True, False]), (op.BXOR, [True, ranks % 2 == 1, False])):
        folded = truth.clone()
        dist.all_reduce(folded, operator)
        assert folded.tolist() == expected, (operator, folded)


def shapes(rank, ranks):
    """Tensors with gaps, in other orders, of several dimensions; the same memory in and out."""
    for make in (lambda t: t.t(), lambda t: t[::2], lambda t: t[:, 1:], lambda t: t.unsqueeze(0).expand(1, -1, -1)):
        base = torch.arange(48.0).view(6, 8) + rank
        view = make(base)
        expected = sum(make(torch.arange(48.0).view(6, 8) + r) for r in range(ranks))
        dist.all_reduce(view)
        same(view.contiguous(), expected.contiguous())
        out = [torch.zeros(8, 6).t() for _ in range(ranks)]
        dist.all_gather(out, torch.full((6, 8), float(rank)).t().contiguous().t())
        assert [t[3, 2].item() for t in out] == list(range(ranks))
    flat = torch.zeros(ranks, 5)
    flat[rank] = rank + 1
    dist.all_gather_into_tensor(flat, flat[rank])
    same(flat, torch.arange(1.0, ranks + 1).view(-1, 1).expand(ranks, 5).contiguous())


def blocks(rank, ranks):
    """All-to-all, gather, scatter; blocks of different lengths."""
    out = torch.empty(ranks * 3)
    dist.all_to_all_single(out, torch.arange(ranks * 3.0) + 100 * rank)
    same(out.view(ranks, 3), torch.stack([torch.arange(3.0) + 3 * rank + 100 * r for r in range(ranks)]))
    sends, recvs = [r + rank for r in range(ranks)], [rank + r for r in range(ranks)]
    out = torch.empty(sum(recvs), 2)
    dist.all_to_all_single(out, torch.full((sum(sends), 2), float(rank)), recvs, sends)
    same(out, torch.cat([torch.full((rank + r, 2), float(r)) for r in range(ranks)]))
    outs = [torch.empty(rank + r) for r in range(ranks)]
    dist.all_to_all(outs, [torch.full((r + rank,), float(rank)) for r in range(ranks)])
    for r in range(ranks):
        same(outs[r], torch.full((rank + r,), float(r)))
    outs = [torch.empty(r) for r in range(ranks)]
    dist.all_gather(outs, torch.full((rank,), float(rank)))
    for r in range(ranks):
        same(outs[r], torch.full((r,), float(r)))
    part = torch.empty(rank + 1)
    dist.reduce_scatter(part, [torch.ones(r + 1) for r in range(ranks)])
    same(part, torch.full((rank + 1,), float(ranks)))
    for root in range(ranks):
        outs = [torch.empty(4) for _ in range(ranks)] if rank == root else None
        dist.gather(torch.full((4,), float(rank)), outs, root)
        if rank == root:
            assert [t[0].item() for t in outs] == list(range(ranks))
        part = torch.empty(4)
        dist.scatter(part, [torch.full((4,), float(r * 2)) for r in range(ranks)] if rank == root else None, root)
        same(part, torch.full((4,), 2.0 * rank))


def together(rank, ranks):
    """Several calls as one, objects, barriers."""
    tensors = [torch.full((count,), float(rank)) for count in (1, 0, 1000)]
    with dist.distributed_c10d._coalescing_manager(async_ops=True) as pending:
        for tensor in tensors:
            dist.all_reduce(tensor)
    pending.wait()
    assert all((t == sum(range(ranks))).all() for t in tensors)
    outs = [torch.empty(ranks * 2), torch.empty(ranks * 3)]
    with dist.distributed_c10d._coalescing_manager():
        for out, count in zip(outs, (2, 3)):
            dist.all_gather_into_tensor(out, torch.full((count,), float(rank)))
    assert outs[1].view(ranks, 3)[:, 0].tolist() == list(range(ranks))
    parts = [torch.empty(2), torch.empty(3, dtype=torch.int64)]
    with dist.distributed_c10d._coalescing_manager(async_ops=True) as pending:
        for part in parts:
            dist.reduce_scatter_tensor(part, torch.full((ranks * part.numel(),), rank + 1, dtype=part.dtype))
    pending.wait()
    assert all((part == sum(range(1, ranks + 1))).all() for part in parts)
    group = dist.group.WORLD
    tensors = [torch.full((3,), float(rank)), torch.full((2, 2), rank)]
    group.allreduce_coalesced(tensors).wait()
    assert all((t == sum(range(ranks))).all() for t in tensors)
    lists = [[torch.empty(3), torch.empty(2)] for _ in range(ranks)]
    dist.all_gather_coalesced(lists, [torch.full((count,), float(rank)) for count in (3, 2)])
    assert all((t == r).all() for r, of_rank in enumerate(lists) for t in of_rank)
    twice = torch.full((3,), float(rank))
    group.allreduce_coalesced([twice, twice]).wait()  # one memory: each result is that of its own input
    assert (twice == sum(range(ranks))).all()
    dist.all_to_all([twice], [twice], group=dist.new_group([rank], use_local_synchronization=True))
    backend = group._get_backend(torch.device("cpu"))
    if hasattr(backend, "gather_single"):  # newer versions
        whole = torch.empty(ranks * 3) if rank == 1 else torch.empty(0)
        options = dist.GatherOptions()
        options.rootRank = 1
        backend.gather_single(whole, torch.full((3,), float(rank)), options).wait()
        assert rank != 1 or whole.view(ranks, 3)[:, 0].tolist() == list(range(ranks))
    objects = [None] * ranks
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * rank})
    assert [o["rank"] for o in objects] == list(range(ranks))
    told = [("from", 1)] if rank == 1 else [None]
    dist.broadcast_object_list(told, 1)
    assert told == [("from", 1)]
    got = [None]
    dist.scatter_object_list(got, [f"for {r}" for r in range(ranks)] if rank == 0 else None, 0)
    assert got == [f"for {rank}"]
    gathered = [None] * ranks if rank == 0 else None
    dist.gather_object(rank, gathered, 0)
    assert rank != 0 or gathered == list(range(ranks))
    dist.barrier()


def sparse(rank, ranks):
    """COO tensors: places that ranks share and that they do not, dense dimensions, none, places that come twice."""
    for dtype in (torch.float32, torch.float16, torch.int64):
        for dense in ((), (2, 3)):
            mine = torch.sparse_coo_tensor([[rank, ranks, 0, 0], [0, 1, 2, 2]], torch.ones(4, *dense, dtype=dtype),
                                           (ranks + 1, 3, *dense))
            whole = torch.zeros(ranks + 1, 3, *dense, dtype=dtype)
            whole[:ranks, 0], whole[ranks, 1], whole[0, 2] = 1, ranks, 2 * ranks
            dist.all_reduce(mine)
            assert mine.is_sparse and torch.equal(mine.to_dense(), whole), mine
            work = dist.all_reduce(mine, dist.ReduceOp.AVG, async_op=True)
            work.wait()
            assert torch.equal(work.result()[0].to_dense(), whole) and torch.equal(mine.to_dense(), whole)
    none = torch.sparse_coo_tensor(torch.empty(1, 0), torch.empty(0), (5,))
    dist.all_reduce(none)
    assert none.shape == (5,) and none._nnz() == 0
    only_one = torch.sparse_coo_tensor([[4]] if rank == 1 else torch.empty(1, 0), torch.ones(int(rank == 1)), (5,))
    dist.all_reduce(only_one)
    assert only_one.to_dense().tolist() == [0, 0, 0, 0, 1]
    text = error_of(dist.all_reduce, torch.eye(3 + rank).to_sparse())
    assert text.startswith("ValueError") and "sparse tensor of sizes" in text, text
    text = error_of(dist.all_reduce, torch.eye(3).to_sparse(), dist.ReduceOp.MAX)
    assert text.startswith("ValueError") and "unsupported reduction operation" in text, text
    text = error_of(dist.all_reduce, torch.eye(3, dtype=torch.complex64).to_sparse())
    assert "sparse complex tensors" in text or "aten::view_as_real" in text, text  # older versions refuse it themselves
    options = dist.BroadcastOptions()
    options.rootRank = 0
    text = error_of(dist.group.WORLD._get_backend(torch.device("cpu")).broadcast, [torch.eye(3).to_sparse()], options)
    assert text.startswith("NotImplementedError") and "only supports dense tensors" in text, text
    text = error_of(dist.all_reduce, torch.eye(3).to_sparse_csr())
    assert text.startswith("NotImplementedError"), text
    dist.all_reduce(torch.ones(1))  # the group is still usable


def torch_s_words(rank, ranks):
    """Errors hold the words by which torch's own tests, and programs, know those of Gloo and NCCL."""
    group = dist.group.WORLD._get_backend(torch.device("cpu"))
    one, double, two = torch.zeros(1), torch.zeros(1, dtype=torch.float64), torch.zeros(2)

    def refused(words, call, tensors, options=None, **kinds):
        for key, value in kinds.items():
            setattr(options, key, value)
        text = error_of(call, *tensors, *([] if options is None else [options]))
        assert text.startswith("ValueError") and words in text, f"{words!r} is not in {text!r}"

    refused("requires non-empty tensor list", group.allreduce, [[]])
    refused("invalid tensor type at index 0", group.allreduce, [[one, double]])
    refused("invalid tensor size at index 0", group.allreduce, [[one, two]])
    refused("Expecting one tensor only but got multiple", group.allreduce, [[one, one]])
    refused("requires non-empty tensor list", group.allreduce_coalesced, [[]])
    for root in (-1, ranks):
        refused(f"invalid root rank: {root}", group.broadcast, [[one]], dist.BroadcastOptions(), rootRank=root)
        refused(f"invalid root rank: {root}", group.reduce, [[one]], dist.ReduceOptions(), rootRank=root)
        refused(f"invalid root rank: {root}", group.gather, [[], [one]], dist.GatherOptions(), rootRank=root)
        refused(f"invalid root rank: {root}", group.scatter, [[one], []], dist.ScatterOptions(), rootRank=root)
    refused("invalid root tensor: 1", group.broadcast, [[one]], dist.BroadcastOptions(), rootRank=0, rootTensor=1)
    refused("requires non-empty input tensor list", group.allgather, [[[one] * ranks], []])
    refused("requires input/output tensor lists to have the same length", group.allgather, [[], [one]])
    refused("invalid output tensor list at index 0", group.allgather, [[[one]], [one]])
    refused("invalid tensor type at index 0", group.allgather, [[[double] * ranks], [one]])
    refused(f"invalid tensor size at index {rank}", group.allgather, [[[two] * ranks], [one]])
    refused("requires a single-element input tensor list", group.gather, [[], []], dist.GatherOptions(), rootRank=0)
    refused("requires a single-element output tensor list", group.scatter, [[], []], dist.ScatterOptions(), rootRank=0)
    refused("requires empty output on non-root", group.gather, [[[one] * ranks], [one]], dist.GatherOptions(),
            rootRank=(rank + 1) % ranks)
    refused(f"Incorrect output list size 1. Output list size should be {ranks}", group.gather, [[[one]], [one]],
            dist.GatherOptions(), rootRank=rank)
    refused("output tensor must have the same type as input tensor", dist.all_gather_into_tensor,
            [torch.zeros(ranks, dtype=torch.float64), one])
    refused("output tensor size must be equal to world_size times", dist.all_gather_into_tensor, [one.new_zeros(9), one])
    refused("input tensor must be the same size as output size times", dist.reduce_scatter_tensor, [one, one.new_zeros(9)])
    refused("the peer's rank is not one of the group's", group.send, [[one], ranks, 0])
    refused("the peer's rank is not one of the group's", group.recv, [[one], -7, 0])
    refused("does not match world size", group.alltoall, [[one], [one]])
    dist.all_reduce(torch.ones(1))  # the group is still usable


def of_inference_mode(rank, ranks):
    """Tensors that inference mode has made can be written to outside it, also those whose elements are not in order."""
    with torch.inference_mode():
        tensors = [torch.full((2, 3), float(rank)), torch.full((3, 2), float(rank)).t()]
        lists = [[torch.zeros(3, 2).t() for _ in range(ranks)] for _ in range(2)]
    for tensor in tensors:
        for is_async in (False, True):
            work = dist.all_reduce(tensor, dist.ReduceOp.MAX, async_op=is_async)
            if is_async:
                work.wait()
            assert (tensor == ranks - 1).all()
    for out, tensor in zip(lists, tensors):
        dist.all_gather(out, tensor)
        assert all((t == ranks - 1).all() for t in out)
    with torch.inference_mode():
        dist.all_reduce(tensors[1])
    assert (tensors[1] == ranks * (ranks - 1)).all()


def wrong_arguments(rank, ranks):
    text = error_of(dist.all_reduce, torch.ones(2), dist.ReduceOp.BAND)
    assert text.startswith("ValueError") and "BAND is not defined for Float" in text, text
    text = error_of(dist.all_reduce, torch.ones(2, dtype=torch.complex64), dist.ReduceOp.MAX)
    assert "MAX" in text, text
    text = error_of(dist.all_reduce, torch.ones(2).to(torch.float8_e4m3fnuz))
    assert "moved, not reduced" in text, text
    text = error_of(dist.all_gather_into_tensor, torch.empty(ranks * 2 + 1), torch.empty(2))
    assert f"{ranks * 2 + 1} elements, and {ranks} ranks have 2 each" in text, text
    dist.all_reduce(torch.ones(1))  # the group is still usable


MANY = 2**31 + 3  # more elements than 31 bits count


def many_reduced(rank, ranks):
    data = torch.zeros(MANY, dtype=torch.int8)
    data[-1] = rank + 1
    dist.all_reduce(data)
    assert data[-1].item() == sum(range(1, ranks + 1)) and data[0].item() == 0


def many_gathered(rank, ranks):
    out = torch.empty(2 * MANY, dtype=torch.int8)
    mine = torch.full((MANY,), rank + 1, dtype=torch.int8)
    dist.all_gather_into_tensor(out, mine)
    assert [out[at].item() for at in (0, MANY - 1, MANY, -1)] == [1, 1, 2, 2]
    dist.reduce_scatter_tensor(mine, out)
    assert mine[0].item() == mine[-1].item() == 2 * (rank + 1)


def many_sent(rank, ranks):
    """A message, and a block of an all-to-all, of that length."""
    data = torch.zeros(MANY, dtype=torch.int8)
    if rank == 0:
        data[-1] = 7
        dist.send(data, 1)
        dist.all_to_all_single(torch.empty(2, dtype=torch.int8), data, [1, 1], [1, MANY - 1])
    else:
        dist.recv(data, 0)
        assert data[-1].item() == 7 and data[0].item() == 0
        dist.all_to_all_single(data, torch.ones(2, dtype=torch.int8), [MANY - 1, 1], [1, 1])
        assert data[-2].item() == 7 and data[-1].item() == 1


class Collectives(unittest.TestCase):
    def check(self, body):
        for ranks in RANKS:
            with self.subTest(ranks=ranks):
                run(ranks, body)

    def test_every_type(self):
        self.check(every_type)

    def test_every_operator(self):
        self.check(every_operator)

    def test_shapes(self):
        self.check(shapes)

    def test_blocks(self):
        self.check(blocks)

    def test_together(self):
        self.check(together)

    def test_sparse(self):
        self.check(sparse)

    def test_inference_mode(self):
        self.check(of_inference_mode)

    def test_errors_have_torch_s_words(self):
        self.check(torch_s_words)

    def test_wrong_arguments(self):
        self.check(wrong_arguments)

    def test_more_than_two_to_the_31_elements(self):
        for body in (many_reduced, many_gathered, many_sent):
            with self.subTest(body=body.__name__):
                run(2, body)


if __name__ == "__main__":
    unittest.main()
