"""Each collective with each element type, and each operator with each type, against the same computed on one rank."""

import unittest

import torch
import torch.distributed as dist
from collectives_test import ALL, COMPLEX, FLOATS, INTEGERS, MOVED_ONLY, SMALL_FLOATS, bits, data, same
from ranks import error_of, run

Op = dist.ReduceOp
COUNT = 37


def joined(parts):
    """torch.cat of any type."""
    return torch.cat([bits(part) for part in parts]).view(parts[0].dtype)


def moves(rank, ranks):
    """What only moves data, with every type."""
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    for dtype in ALL:
        of_rank = [data(r, COUNT, dtype) for r in range(ranks)]
        blocks = [[data(10 * r + to, COUNT, dtype) for to in range(ranks)] for r in range(ranks)]
        received = [blocks[r][rank] for r in range(ranks)]

        out = torch.empty(ranks * COUNT, dtype=dtype)
        dist.all_to_all_single(out, joined(blocks[rank]))
        same(out, joined(received))
        outs = [torch.empty(COUNT, dtype=dtype) for _ in range(ranks)]
        dist.all_to_all(outs, blocks[rank])
        for actual, expected in zip(outs, received):
            same(actual, expected)
        outs = [torch.empty(COUNT, dtype=dtype) for _ in range(ranks)]
        dist.gather(of_rank[rank], outs if rank == 0 else None, 0)
        for actual, expected in zip(outs if rank == 0 else [], of_rank):
            same(actual, expected)
        part = torch.empty(COUNT, dtype=dtype)
        dist.scatter(part, blocks[1] if rank == 1 else None, 1)
        same(part, blocks[1][rank])
        from_left, from_any = torch.empty(COUNT, dtype=dtype), torch.empty(COUNT, dtype=dtype)
        pending = [dist.isend(of_rank[rank], right, tag=1), dist.irecv(from_left, left, tag=1),
                   dist.isend(of_rank[rank], right, tag=2)]
        assert dist.recv(from_any, None, tag=2) == left
        for work in pending:
            work.wait()
        same(from_left, of_rank[left])
        same(from_any, of_rank[left])


def wide(dtype):
    return torch.complex128 if dtype.is_complex else torch.float64 if dtype.is_floating_point else torch.int64


def folded(op, parts):
    """The operator on one rank: in a type that holds all results exactly."""
    dtype, ranks = parts[0].dtype, len(parts)
    if dtype == torch.bool:
        folds = {Op.SUM: torch.Tensor.any, Op.MAX: torch.Tensor.any, Op.BOR: torch.Tensor.any,
                 Op.PRODUCT: torch.Tensor.all, Op.MIN: torch.Tensor.all, Op.BAND: torch.Tensor.all,
                 Op.BXOR: lambda t, _: t.sum(0) % 2 == 1}
        return folds[op](torch.stack(parts), 0)
    all_of = torch.stack([part.to(wide(dtype)) for part in parts])
    if op in (Op.BAND, Op.BOR, Op.BXOR):
        result = all_of[0].clone()
        for row in all_of[1:]:
            {Op.BAND: result.bitwise_and_, Op.BOR: result.bitwise_or_, Op.BXOR: result.bitwise_xor_}[op](row)
    elif op == Op.AVG:
        result = all_of.sum(0) / ranks  # of whole numbers: rounded towards zero by the conversion
    else:
        result = {Op.SUM: lambda: all_of.sum(0), Op.PRODUCT: lambda: all_of.prod(0), Op.MIN: lambda: all_of.amin(0),
                  Op.MAX: lambda: all_of.amax(0)}[op]()
    return result.to(dtype)


OPERATORS = (Op.SUM, Op.AVG, Op.PRODUCT, Op.MIN, Op.MAX, Op.BAND, Op.BOR, Op.BXOR)


def defined(op, dtype):
    if dtype in MOVED_ONLY:
        return False
    if dtype == torch.bool:
        return op != Op.AVG
    if op in (Op.BAND, Op.BOR, Op.BXOR):
        return dtype in INTEGERS
    return op in (Op.SUM, Op.AVG) or dtype not in COMPLEX


def by_all_reduce(parts, rank, ranks, op, expected):
    reduced = parts[rank].clone()
    dist.all_reduce(reduced, op)
    same(reduced, expected)


def by_reduce(parts, rank, ranks, op, expected):
    reduced = parts[rank].clone()
    dist.reduce(reduced, 1, op)
    same(reduced, expected if rank == 1 else parts[rank])


def by_reduce_scatter(parts, rank, ranks, op, expected):
    share = parts[0].numel() // ranks
    part = torch.empty(share, dtype=parts[0].dtype)
    dist.reduce_scatter_tensor(part, parts[rank], op)
    same(part, expected[rank * share:(rank + 1) * share])
    part = torch.empty(share, dtype=parts[0].dtype)
    dist.reduce_scatter(part, list(parts[rank].split(share)), op)
    same(part, expected[rank * share:(rank + 1) * share])


def operand(rank, count, dtype, op):
    """Numbers whose results every type holds."""
    if op == Op.PRODUCT and dtype != torch.bool:
        return (data(rank, count, torch.int64, 2) + 1).to(dtype)
    if dtype in INTEGERS:
        return (data(rank, count, torch.int64, 3) + 1).to(dtype)
    return data(rank, count, dtype, 2 if dtype == torch.bool else 3)


def operators(rank, ranks):
    for dtype in ALL:
        for op in OPERATORS:
            if not defined(op, dtype):
                refused = error_of(dist.all_reduce, data(rank, COUNT, dtype), op)
                assert refused.startswith("ValueError"), (dtype, op, refused)
                continue
            parts = [operand(r, 12 * ranks, dtype, op) for r in range(ranks)]
            expected = folded(op, parts)
            for call in (by_all_reduce, by_reduce, by_reduce_scatter):
                call(parts, rank, ranks, op, expected)


def scaled_sums(rank, ranks):
    for dtype in (*INTEGERS, *FLOATS, *SMALL_FLOATS, *COMPLEX):
        for factor in (2.0, torch.tensor(2).to(torch.float64 if dtype.is_complex else dtype)):
            parts = [data(r, COUNT, dtype, 2) for r in range(ranks)]
            mine = parts[rank].clone()
            dist.all_reduce(mine, dist._make_nccl_premul_sum(factor))
            same(mine, (sum(part.to(wide(dtype)) for part in parts) * 2).to(dtype))
    refused = error_of(dist.all_reduce, torch.tensor([True]), dist._make_nccl_premul_sum(2.0))
    assert refused.startswith("ValueError") and "PREMUL_SUM is not defined for Bool" in refused, refused


class Types(unittest.TestCase):
    def check(self, body):
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                run(ranks, body)

    def test_moves(self):
        self.check(moves)

    def test_operators(self):
        self.check(operators)

    def test_scaled_sums(self):
        self.check(scaled_sums)


if __name__ == "__main__":
    unittest.main()
