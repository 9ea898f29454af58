"""Messages between two ranks: tags in any order, any source, both directions at the same time."""

import time
import unittest

import torch
import torch.distributed as dist
from ranks import error_of, run

LARGE = 3_000_000  # elements: more than any staging memory holds


def tags(rank, ranks):
    peer = 1 - rank
    if rank == 0:
        messages = ((3, 10), (5, LARGE), (4, 0), (3, 11))
        pending = [dist.isend(torch.full((n,), float(tag)), 1, tag=tag) for tag, n in messages]
    else:
        got = {}
        for tag, n, turn in ((5, LARGE, 0), (3, 10, 0), (3, 11, 1), (4, 0, 0)):
            got[tag, turn] = torch.empty(n)
            assert dist.recv(got[tag, turn], 0, tag=tag) == 0
        assert all((tensor == tag).all() for (tag, _), tensor in got.items())
        pending = []
    for work in pending:
        work.wait()
    # both send first, then receive: messages that no staging memory holds
    out = torch.full((LARGE,), float(rank))
    got = torch.empty(LARGE)
    sent, received = dist.isend(out, peer), dist.irecv(got, peer)
    received.wait()
    sent.wait()
    assert (got == peer).all()
    # a tensor with gaps
    if rank == 0:
        dist.send(torch.arange(12.0).view(3, 4).t(), 1)
    else:
        got = torch.zeros(3, 4).t()
        dist.recv(got, 0)
        assert torch.equal(got, torch.arange(12.0).view(3, 4).t())


def any_source(rank, ranks):
    if rank == 0:
        seen = set()
        for _ in range(2 * (ranks - 1)):
            got = torch.empty(4)
            source = dist.recv(got, None, tag=9)
            assert got[0].item() in (source, source + 100)
            seen.add(got[0].item())
        assert len(seen) == 2 * (ranks - 1)
        got = torch.empty(1)
        dist.recv(got, ranks - 1, tag=1)  # after receives from any rank, one from a certain rank
        assert got.item() == 7
    else:
        dist.send(torch.full((4,), float(rank)), 0, tag=9)
        dist.send(torch.full((4,), float(rank + 100)), 0, tag=9)
        if rank == ranks - 1:
            dist.send(torch.tensor([7.0]), 0, tag=1)


def any_source_and_end(rank, ranks):
    """A receive from any rank leaves the receiver waiting for other senders, too: they may leave, and nothing differs."""
    for _ in range(10):
        group = dist.new_group(range(ranks))
        if rank == 0:
            for _ in range(ranks - 1):
                dist.recv(torch.empty(4), group=group)
            waiting = dist.irecv(torch.empty(4), group=group)  # reads from both senders, whose ways are open now
            time.sleep(0.05)  # so that it does, as a rule
        else:
            dist.send(torch.ones(4), 0, group=group)
        dist.barrier(group)
        if rank == 0:
            waiting.wait()
            time.sleep(0.1)  # so that senders leave first, as a rule
        elif rank == 2:
            dist.send(torch.ones(4), 0, group=group)
        dist.destroy_process_group(group)


def never_received(rank, ranks):
    if rank == 0:
        dist.isend(torch.ones(3), 1, tag=4)
        dist.send(torch.ones(2), 1, tag=5)
    else:
        dist.recv(torch.empty(2), 0, tag=5)
    if rank == 1:
        text = error_of(dist.destroy_process_group)
        assert "messages in group '0' (default_pg) were never received: 12 bytes of rank 0 (tag 4)" in text, text


def batches(rank, ranks):
    """A ring of both directions, whose operations are listed in other orders on each rank."""
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    for count in (0, 1, LARGE):
        from_left, from_right = torch.empty(count), torch.empty(count)
        mine = torch.full((count,), float(rank))
        ops = [dist.P2POp(dist.isend, mine, right, tag=1), dist.P2POp(dist.isend, mine, left, tag=2),
               dist.P2POp(dist.irecv, from_left, left, tag=1), dist.P2POp(dist.irecv, from_right, right, tag=2)]
        for work in dist.batch_isend_irecv(ops if rank % 2 else ops[::-1]):
            work.wait()
        assert (from_left == left).all() and (from_right == right).all()


def lengths(rank, ranks):
    if rank == 0:
        dist.send(torch.ones(3), 1, tag=2)
        dist.send(torch.ones(2), 1, tag=2)
    else:
        text = error_of(dist.recv, torch.empty(4), 0, tag=2)
        assert "16 bytes" in text and "12 bytes" in text and "rank 0" in text and "rank 1" in text, text
        got = torch.empty(2)
        dist.recv(got, 0, tag=2)
        assert got.tolist() == [1, 1]


def objects(rank, ranks):
    if rank == 0:
        dist.send_object_list([{"a": 1}, "text"], 1)
    else:
        got = [None, None]
        dist.recv_object_list(got, 0)
        assert got == [{"a": 1}, "text"]


class PointToPoint(unittest.TestCase):
    def test_tags(self):
        run(2, tags)

    def test_any_source_and_the_end(self):
        run(3, any_source_and_end)

    def test_messages_that_are_never_received_are_named(self):
        run(2, never_received)

    def test_any_source(self):
        run(3, any_source)

    def test_batches(self):
        run(2, batches)
        run(3, batches)

    def test_lengths_that_differ(self):
        run(2, lengths)

    def test_objects(self):
        run(2, objects)


if __name__ == "__main__":
    unittest.main()
