"""torch.distributed._symmetric_memory on tensors of the CPU."""

import gc
import os
import signal
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist
import tutti_torch  # noqa: F401: registers the backend
from ranks import error_of, run

try:
    import torch.distributed._symmetric_memory as symm_mem

    HAS_IT = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 15)
except ImportError:
    HAS_IT = False


def pattern(rank, count, step=0):
    return torch.arange(count, dtype=torch.float32) * (step + 1) + 10_000 * rank


def joined(*size, dtype=torch.float32, fill=-1):
    tensor = symm_mem.empty(*size, dtype=dtype, device="cpu")
    tensor.fill_(fill)
    return tensor, symm_mem.rendezvous(tensor, dist.group.WORLD)


def see_each_other(rank, ranks):
    assert symm_mem.get_backend("cpu") == "TUTTI"
    tensor, handle = joined(7, 143)
    assert (handle.rank, handle.world_size, handle.buffer_size) == (rank, ranks, tensor.nbytes)
    assert handle.buffer_ptrs[rank] == tensor.data_ptr() and len({*handle.buffer_ptrs}) == ranks
    assert symm_mem.is_symm_mem_tensor(tensor) and not symm_mem.is_symm_mem_tensor(torch.zeros(1))
    tensor.copy_(pattern(rank, 1001).view(7, 143))
    handle.barrier()
    for peer in range(ranks):
        assert torch.equal(handle.get_buffer(peer, (7, 143), torch.float32), pattern(peer, 1001).view(7, 143))
        assert torch.equal(handle.get_remote_tensor(peer, (1001,), torch.float32), pattern(peer, 1001))
        assert torch.equal(handle.get_buffer(peer, [5], torch.float32, 996), pattern(peer, 1001)[996:])
        assert torch.equal(handle.get_buffer(peer, [2], torch.int32, 3), pattern(peer, 1001)[3:5].view(torch.int32))
    handle.barrier(channel=1)
    after = (rank + 1) % ranks
    handle.get_buffer(after, (3,), torch.float32, 100 + rank).fill_(0.5 + rank)  # into the peer's memory
    handle.barrier()
    before = (rank - 1) % ranks
    expected = pattern(rank, 1001)
    expected[100 + before:103 + before] = 0.5 + before
    assert torch.equal(tensor.view(-1), expected)
    dist.barrier()
    assert (handle.get_signal_pad(rank) == 0).all(), "signals that were taken leave nothing"
    dist.barrier()


def odd_sizes(rank, ranks):
    for count in (0, 1, 63, 64, 65, 4097, 1 << 20):
        tensor, handle = joined(count, dtype=torch.uint8, fill=rank + 1)
        handle.barrier()
        for peer in range(ranks):
            assert (handle.get_buffer(peer, (count,), torch.uint8) == peer + 1).all()
        assert "exceeds" in error_of(handle.get_buffer, (rank + 1) % ranks, (count + 1,), torch.uint8)
        dist.barrier()
        assert (tensor == rank + 1).all() and (handle.get_signal_pad(rank) == 0).all()


def pass_on(rank, ranks):
    """What was stored before a signal is there when it is taken."""
    tensor, handle = joined(1000)
    after, before = (rank + 1) % ranks, (rank - 1) % ranks
    for step in range(50):
        channel = step % 3
        handle.get_buffer(after, (1000,), torch.float32).copy_(pattern(rank, 1000, step))
        handle.put_signal(after, channel)
        handle.wait_signal(before, channel)
        assert torch.equal(tensor, pattern(before, 1000, step)), step
        tensor.fill_(-1)
        handle.put_signal(before, 7)  # it may be written again
        handle.wait_signal(after, 7)


def calls_of_the_group_run_meanwhile(rank, ranks):
    tensor, handle = joined(10)
    total = torch.full((100_000,), float(rank))
    if rank == 0:
        work = dist.all_reduce(total, async_op=True)
        for peer in range(1, ranks):
            handle.wait_signal(peer)
        work.wait()
    else:
        handle.put_signal(0)
        dist.all_reduce(total)
    assert (total == sum(range(ranks))).all()


def time_outs(rank, ranks):
    tensor, handle = joined(10)
    peer = (rank + 1) % ranks
    handle.put_signal(peer, channel=5)
    text = error_of(handle.wait_signal, peer, channel=4, timeout_ms=100)
    assert "timed out" in text and f"rank {rank}: wait_signal(from rank {peer}, channel 4): rank {peer} has sent no signal for " \
        "100 ms" in text, text
    text = error_of(handle.put_signal, peer, channel=5, timeout_ms=100)
    assert "timed out" in text and f"rank {rank}: put_signal(to rank {peer}, channel 5): rank {peer} has not taken the signal " \
        "before for 100 ms" in text, text
    dist.barrier()
    handle.wait_signal((rank - 1) % ranks, channel=5)  # it was sent once
    assert "timed out" in error_of(handle.wait_signal, (rank - 1) % ranks, channel=5, timeout_ms=50)
    dist.barrier()
    if rank == 0:
        text = error_of(handle.barrier, channel=9, timeout_ms=100)
        assert "barrier(with rank 1, channel 9): rank 1 has sent no signal" in text, text
    dist.barrier()
    handle.barrier()  # the group and other channels are usable


def time_out_of_the_group(rank, ranks):
    tensor, handle = joined(10)
    if rank == 0:
        group = dist.group.WORLD._get_backend(torch.device("cpu"))
        group._set_default_timeout(timedelta(milliseconds=200))
        assert "has sent no signal for 200 ms" in error_of(handle.wait_signal, 1)
        group._set_default_timeout(timedelta(seconds=60))
        handle.put_signal(1, channel=1)
    else:
        handle.wait_signal(0, channel=1, timeout_ms=30_000)


def killed_while_others_wait(rank, ranks):
    tensor, handle = joined(10)
    last = ranks - 1
    if rank == last:
        for peer in range(last):
            handle.put_signal(peer, channel=1)
        os.kill(os.getpid(), signal.SIGKILL)
    for call in (lambda: handle.wait_signal(last, 0), lambda: handle.barrier()):
        text = error_of(call)
        assert f"rank {last}" in text and "gone" in text and "timed out" not in text, text
    handle.wait_signal(last, channel=1)  # it had sent that one
    assert error_of(handle.barrier)


def left_while_others_wait(rank, ranks):
    tensor, handle = joined(10)
    if rank == 1:
        dist.destroy_process_group()
        assert "was shut down" in error_of(handle.barrier)
        return
    text = error_of(handle.wait_signal, 1)
    assert "rank 1" in text and "left" in text, text


def refused(rank, ranks):
    world = dist.group.WORLD
    mine = symm_mem.empty(10, device="cpu")
    text = error_of(symm_mem.rendezvous, torch.zeros(10) if rank == 1 else mine, world)
    assert ("not of symmetric memory" if rank == 1 else "rank 1 cannot take part") in text, text
    text = error_of(symm_mem.rendezvous, symm_mem.empty(10 + rank // (ranks - 1), device="cpu"), world)
    assert "ValueError" in text and "another size" in text, text
    handle = symm_mem.rendezvous(mine, world)
    for again in (symm_mem.rendezvous(mine, world), symm_mem.rendezvous(mine[3:], world.group_name)):
        assert again.buffer_ptrs == handle.buffer_ptrs and again.signal_pad_ptrs == handle.signal_pad_ptrs
    other = dist.new_group(list(range(ranks)))
    assert "another group has the tensor already" in error_of(symm_mem.rendezvous, mine, other)
    gloo = dist.new_group(list(range(ranks)), backend="gloo")
    text = error_of(symm_mem.rendezvous, mine, gloo)
    assert "has the backend gloo for tensors of the CPU" in text, text
    assert error_of(symm_mem.rendezvous, mine, "no group of this name")
    for call in (handle.put_signal, handle.wait_signal):
        assert f"there are ranks 0 to {ranks - 1}" in error_of(call, ranks)
        assert "there is no rank -1" in error_of(call, -1)
        assert "there is no channel -1" in error_of(call, 0, channel=-1)
        assert "there is no channel" in error_of(call, 0, channel=handle.signal_pad_size // (4 * ranks))
    assert error_of(handle.get_buffer, ranks, (1,), torch.float32)
    assert error_of(handle.get_buffer, 0, (2,), torch.float32, -1)
    assert error_of(handle.get_signal_pad, 0, (1,), torch.uint8, handle.signal_pad_size)
    handle.barrier()


def pads_keep_their_size(rank, ranks):
    tensor, handle = joined(10)
    size = handle.signal_pad_size
    symm_mem.set_signal_pad_size(2 * size)
    larger, its = joined(10)
    assert its.get_signal_pad(rank).nbytes == 2 * size
    assert "when the tensor was made" in error_of(handle.get_signal_pad, rank), "that of the first tensor is smaller"
    channel = size // (4 * ranks)
    assert "there is no channel" in error_of(handle.put_signal, rank, channel=channel)
    its.barrier(channel=channel)


def mapped_bytes():
    with open("/proc/self/maps") as maps:
        ranges = [line.split()[0].split("-") for line in maps if "memfd:tutti-memory" in line]
    return sum(int(end, 16) - int(begin, 16) for begin, end in ranges)


def keep_and_free(rank, ranks):
    tensor, handle = joined(1 << 16, fill=rank)
    handle.barrier()
    peer = (rank + 1) % ranks
    kept, view = handle.get_buffer(peer, (1 << 16,), torch.float32), handle.get_buffer(peer, (8,), torch.float32, 8)[4:]
    pad = handle.get_signal_pad(peer)
    del tensor, handle
    held = []
    for _ in range(40):
        joined(1 << 18)
        gc.collect()
        held.append(mapped_bytes())
    assert held[39] - held[5] < 1 << 20, held  # what all ranks have let go is given back
    assert (kept == peer).all() and (view == peer).all() and (pad == 0).all()
    dist.barrier()
    del kept, pad
    joined(1)
    assert (view == peer).all()
    dist.destroy_process_group()
    assert (view == peer).all()


def only_one_lets_go(rank, ranks):
    tensor, handle = joined(1000, fill=rank)
    handle.barrier()
    if rank == 0:
        del tensor, handle
        gc.collect()
    for _ in range(3):
        joined(1000)
    if rank != 0:
        assert (handle.get_buffer(0, (1000,), torch.float32) == 0).all()
    dist.barrier()


def forked(rank, ranks):
    tensor, handle = joined(10)
    if rank == 0:
        child = os.fork()
        if child == 0:
            try:
                texts = [error_of(handle.put_signal, 1), error_of(handle.barrier, timeout_ms=100)]
                os._exit(0 if all("forked" in text for text in texts) else 1)
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        assert (handle.get_signal_pad(1) == 0).all(), "no signal of the child's"
        handle.put_signal(1, channel=1)
    elif rank == 1:
        handle.wait_signal(0, channel=1)
        assert "timed out" in error_of(handle.wait_signal, 0, timeout_ms=50)
    dist.barrier()


@unittest.skipUnless(HAS_IT, "torch's interface of symmetric memory is served from 2.15 on")
class SymmetricMemory(unittest.TestCase):
    def test_ranks_see_and_write_each_others_tensors(self):
        for ranks in (1, 2, 4):
            run(ranks, see_each_other)

    def test_any_size(self):
        run(3, odd_sizes)

    def test_signals_order_stores(self):
        for ranks in (2, 4):
            run(ranks, pass_on)

    def test_signals_and_calls_of_the_group_do_not_wait_for_each_other(self):
        run(3, calls_of_the_group_run_meanwhile)

    def test_time_outs_name_the_rank(self):
        for ranks in (2, 3):
            run(ranks, time_outs)

    def test_the_groups_time_out_holds_where_a_call_has_none(self):
        run(2, time_out_of_the_group)

    def test_a_killed_rank_ends_waits(self):
        run(2, killed_while_others_wait, may_die=(1,))
        run(4, killed_while_others_wait, may_die=(3,))

    def test_a_rank_that_leaves_ends_waits(self):
        run(2, left_while_others_wait)

    def test_what_does_not_fit_is_refused(self):
        for ranks in (2, 4):
            run(ranks, refused)

    def test_signal_pads_keep_their_size(self):
        run(2, pads_keep_their_size)

    def test_tensors_keep_the_memory_and_nothing_else_does(self):
        run(2, keep_and_free)
        run(3, only_one_lets_go)

    def test_a_forked_child_sends_no_signals(self):
        run(2, forked)


if __name__ == "__main__":
    unittest.main()
