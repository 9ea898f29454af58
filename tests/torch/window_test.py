"""Windows: tensors that all ranks write and read."""

import unittest

import torch
import torch.distributed as dist
import tutti_torch
from ranks import error_of, run


def pass_on(rank, ranks):
    after, before = (rank + 1) % ranks, (rank - 1) % ranks
    for part in (tutti_torch.empty(3, 1000, dtype=torch.float32), torch.empty(3, 1000)):
        part.fill_(-1)
        window = tutti_torch.window(part)
        for step in range(20):
            mine = torch.arange(1000.0) * (step + 1) + rank
            window.put_signal(mine, after, offset=1000)
            window.wait_signal(before)
            assert torch.equal(part[1], torch.arange(1000.0) * (step + 1) + before), step
            window.signal(before, signal=1)
            window.wait_signal(after, signal=1)
        assert (part[0] == -1).all() and (part[2] == -1).all()
        got = torch.zeros(5, 2).t()  # with gaps
        window.get(got, before, offset=1000)
        assert torch.equal(got, part.new_tensor(range(10)).view(2, 5) * 20 + (before - 1) % ranks)
        window.barrier()  # all have looked
        window.put(torch.full((2, 2), float(rank)).t(), after)
        window.barrier()
        assert (part[0, :4] == before).all()
        assert window.size(after) == 3000 and window.tensor.data_ptr() == part.data_ptr()
        window.close()
        window.close()


def counters(rank, ranks):
    counts = torch.zeros(4, dtype=torch.int64)
    with tutti_torch.window(counts) as window:
        seen = [window.atomic_add(1, 0, offset=3) for _ in range(100)]
        assert seen == sorted(seen)
        assert window.atomic_compare_swap(0, rank + 1, 0) in range(ranks + 1)
        window.barrier()
        if rank == 0:
            assert counts[3] == 100 * ranks and 1 <= counts[0] <= ranks
        window.flush()


def parts_differ(rank, ranks):
    with tutti_torch.window(torch.zeros(rank * 10)) as window:
        assert [window.size(peer) for peer in range(ranks)] == [10 * peer for peer in range(ranks)]
        text = error_of(window.put, torch.zeros(4), 0)
        assert text.startswith("ValueError") and "rank 0's part, of 0 bytes, of the window of call" in text, text
        assert "dtype must be the window's" in error_of(window.put, torch.zeros(1, dtype=torch.int32), 1)
        assert "int64" in error_of(window.atomic_add, 1, 1)
        assert "negative" in error_of(window.get, torch.zeros(1), 1, offset=-1)
        assert "there are ranks 0 to" in error_of(window.signal, ranks)
        window.barrier()
    assert error_of(window.flush)


def one_cannot(rank, ranks):
    part = torch.zeros(4, 4)
    text = error_of(tutti_torch.window, part.t() if rank == 1 else part)
    assert ("contiguous" if rank == 1 else "rank 1 cannot take part") in text, text
    with tutti_torch.window(part) as window:
        window.barrier()


def follows_what_is_queued(rank, ranks):
    """Calls on a window and collectives run in the order of the program."""
    part, total = torch.zeros(1), torch.ones(200_000)
    with tutti_torch.window(part) as window:
        work = dist.all_reduce(total, async_op=True)
        window.put_signal(torch.tensor([float(rank)]), (rank + 1) % ranks)
        window.wait_signal((rank - 1) % ranks)
        work.wait()
        assert (total == ranks).all() and part.item() == (rank - 1) % ranks


def not_closed(rank, ranks):
    window = tutti_torch.window(torch.zeros(8))
    window.put(torch.ones(8), (rank + 1) % ranks)
    window.barrier()
    dist.destroy_process_group()
    assert "was shut down" in error_of(window.flush)


class Windows(unittest.TestCase):
    def test_pass_tensors_on(self):
        for ranks in (2, 3):
            run(ranks, pass_on)

    def test_count(self):
        run(3, counters)

    def test_may_differ_and_check_their_arguments(self):
        run(3, parts_differ)

    def test_a_tensor_that_does_not_fit_is_refused_by_all(self):
        run(2, one_cannot)

    def test_keep_the_programs_order(self):
        run(2, follows_what_is_queued)

    def test_end_with_their_group(self):
        run(2, not_closed)


if __name__ == "__main__":
    unittest.main()
