"""What goes wrong on a GPU reaches the works, names what failed, and ends the streams' waits."""

import os
import re
import signal
import tempfile
import threading
import time
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist
from stand_in import eventually, held, refused, same, use_gpu
from ranks import error_of, run


def backend():
    return dist.group.WORLD._get_backend(torch.device("cuda"))


def ignoring_errors(call, *args):
    try:
        call(*args)
    except RuntimeError:
        pass


def connected(rank, ranks):
    use_gpu(rank)
    data = torch.ones(1000).cuda()
    dist.all_reduce(data)
    torch.cuda.synchronize()
    return data


def refusals(rank, ranks):
    """Refused at the call; the group remains usable."""
    device = use_gpu(rank)
    data = torch.ones(4).cuda()
    cases = [
        ("they must be on one device", lambda: dist.all_gather_into_tensor(torch.empty(4 * ranks), data)),
        ("have no tag", lambda: dist.isend(data, 1 - rank, tag=3)),
        ("is the host's", lambda: backend().recv_anysource([data], 0)),
        ("cannot send to itself", lambda: backend().send([data], rank, 0)),
        ("to_dense", lambda: dist.all_reduce(torch.sparse_coo_tensor([[0]], [1.0], (4,), device=device))),
        ("invalid root rank", lambda: dist.broadcast(data, 7)),
        ("is not defined for", lambda: dist.all_reduce(data, dist.ReduceOp.BAND)),
        ("no arithmetic for", lambda: dist.all_reduce(data.view(torch.int32).view(torch.float8_e4m3fnuz))),
    ]
    for text, call in cases:
        error = error_of(call)
        assert text in error, (text, error)
    dist.all_reduce(data)
    same(data, torch.full((4,), float(ranks)))
    other = torch.device("cuda", 1 - device.index)
    error = error_of(dist.all_reduce, torch.empty(4, device=other))
    assert f"has {device} since its first call, and this tensor is on {other}" in error, error
    group = dist.group.WORLD
    group._start_coalescing(device)
    work = backend().allreduce([data], torch._C._distributed_c10d.AllreduceOptions())
    error = error_of(work.wait)
    assert "has not ended" in error, error
    group._end_coalescing(device).wait()
    coalescing = dist.distributed_c10d._coalescing_manager
    group._start_coalescing(device)  # and an exception leaves the group: torch does not end it
    left = backend().allreduce([data], torch._C._distributed_c10d.AllreduceOptions())
    with coalescing(device=device, async_ops=True) as pending:
        dist.broadcast(data, 0, async_op=True)
    pending.wait()
    error = error_of(left.wait)
    assert "none of its calls was made" in error, error
    torch.cuda.synchronize()
    dist.all_reduce(data)
    same(data, torch.full((4,), float(ranks**3)))


def mismatch(rank, ranks):
    data = connected(rank, ranks)
    work = dist.all_reduce(data[: 1000 if rank == 0 else 500], async_op=True)
    torch.cuda.synchronize()  # the stream goes on
    eventually(lambda: work.exception() is not None)
    error = error_of(work.wait)
    assert "DistBackendError" in error and "count=1000" in error and "count=500" in error, error
    assert work.is_completed() and not work.is_success()
    error = error_of(dist.all_reduce, data)
    assert "count=500" in error, error
    assert backend().get_error() != torch._C._distributed_c10d.ErrorType.SUCCESS


def abort(rank, ranks):
    data = connected(rank, ranks)
    if rank == 0:
        work = dist.all_reduce(data, async_op=True)
        assert not work.is_completed()
        backend().abort()
        torch.cuda.synchronize()
        eventually(lambda: not work.is_success())
        assert "abort" in error_of(work.wait)
    else:
        eventually(lambda: backend().get_error() != torch._C._distributed_c10d.ErrorType.SUCCESS)
        assert "abort" in error_of(dist.all_reduce, data)


def killed(rank, ranks):
    data = connected(rank, ranks)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    work = dist.all_reduce(data, async_op=True)
    torch.cuda.synchronize()
    eventually(lambda: work.exception() is not None)
    error = error_of(work.wait)
    assert "rank 1" in error and "is gone" in error, error


def late(rank, ranks):
    """The group's time-out ends the GPU's wait; the text names the peer and the setting."""
    data = connected(rank, ranks)
    if rank == 1:
        eventually(lambda: backend().get_error() != torch._C._distributed_c10d.ErrorType.SUCCESS)
        return
    start = time.monotonic()
    work = dist.all_reduce(data, async_op=True)
    torch.cuda.synchronize()
    eventually(lambda: work.exception() is not None)
    error = error_of(work.wait)
    assert "timed out (a timeout of 2 s is set)" in error and "rank 1" in error, error
    assert time.monotonic() - start >= 2


def own_limit(rank, ranks):
    """A call's own time-out, of a call that is behind something else on its stream, aborts the group."""
    data = connected(rank, ranks)
    options = torch._C._distributed_c10d.AllreduceOptions()
    options.timeout, options.asyncOp = timedelta(seconds=0.5), True
    with held():
        work = backend().allreduce([data], options)
        eventually(lambda: work.exception() is not None)
        error = error_of(work.wait)
    torch.cuda.synchronize()
    assert "aborted the communicator" in error_of(dist.all_reduce, data)
    return error


def own_limit_of_a_group(rank, ranks):
    """Calls that are enqueued as one have the shortest of their own time-outs."""
    data = connected(rank, ranks)
    device, group, works = torch.device("cuda", torch.cuda.current_device()), dist.group.WORLD, []
    with held():
        group._start_coalescing(device)
        for seconds in (30, 0.5, 30):
            options = torch._C._distributed_c10d.AllreduceOptions()
            options.timeout, options.asyncOp = timedelta(seconds=seconds), True
            works.append(backend().allreduce([data], options))
        backend().allreduce([data], torch._C._distributed_c10d.AllreduceOptions())  # the group's time-out
        work = group._end_coalescing(device)
        eventually(lambda: work.exception() is not None, within=10)
        error = error_of(work.wait)
    return error


def left_behind(rank, ranks):
    """A call that the other rank never makes is reported when the group is destroyed."""
    data = connected(rank, ranks)
    if rank == 0:
        dist.broadcast(data, 0)
    error = error_of(dist.destroy_process_group)
    both = f"rank {rank}: rank 1 left after 1 call, rank 0 after 2, the last of them broadcast(count=1000, f32, root=0)"
    assert both in error, error


def alone(rank, ranks):
    """Messages: the peer that never connects is named in time, by its rank in the group."""
    data = connected(rank, ranks)
    store = dist.distributed_c10d._get_default_store()
    if rank == 1:
        error = error_of(dist.irecv(data, 2).wait)
        start = "DistBackendError: timed out (a timeout of 3 s is set): rank 1: recv from rank 2 of group '0' (default_pg): "
        assert error.startswith(start) and "its rank 0 is rank 1 of the group, its rank 1 is rank 2" in error, error
        store.set("over", "1")
    else:
        store.wait(["over"], timedelta(seconds=60))


def aborts_while_connecting(rank, ranks, folder):
    """abort() comes when the other rank has joined, and this one's thread is about to see that it has."""
    device = use_gpu(rank)
    data = torch.ones(4).cuda()
    for turn in range(12):
        group = dist.new_group()
        of_gpu, flag = group._get_backend(device), f"{folder}/{turn}"
        if rank == 1:
            time.sleep(0.05)
            ignoring_errors(of_gpu.eager_connect_single_device, device)  # an abort of rank 0
            open(flag, "w").close()
            continue
        connecting = threading.Thread(target=ignoring_errors, args=(of_gpu.eager_connect_single_device, device))
        connecting.start()
        while not os.path.exists(flag):
            pass
        of_gpu.abort()
        connecting.join()
        error = error_of(dist.all_reduce, data, group=group, async_op=True)  # of the communicator or for want of one
        assert "aborted" in error or "shut down" in error, error


def blind(rank, ranks):
    """The thread that looks after works cannot use the GPU: the works end with that error."""
    device = use_gpu(rank)
    data = torch.ones(4).cuda()
    backend().eager_connect_single_device(device)
    with refused("cuDevicePrimaryCtxRetain", 2):
        work = dist.all_reduce(data, async_op=True)
        eventually(lambda: work.exception() is not None)
    error = error_of(work.wait)
    assert "DistBackendError" in error and "cuDevicePrimaryCtxRetain failed with CUDA's error 2" in error, error
    torch.cuda.synchronize()
    dist.all_reduce(data)
    same(data, torch.full((4,), float(ranks**2)))


class Failures(unittest.TestCase):
    def test_refusals(self):
        run(2, refusals)

    def test_mismatch(self):
        run(2, mismatch)

    def test_abort(self):
        run(2, abort)

    def test_killed(self):
        run(2, killed, may_die=(1,))

    def test_late(self):
        run(2, late, timeout=2)

    def test_own_limit(self):
        for program in (own_limit, own_limit_of_a_group):
            with self.subTest(program=program.__name__):
                self.check_limit(run(2, program))

    def check_limit(self, errors):
        """The first rank whose call is late aborts the group; the other one hears of that, or was late too."""
        late = [re.search(f"rank {rank}: (all_reduce|coalesced), call \\d of group '0' \\(default_pg\\), timed out: it has "
                          "not finished after 0.5 s.*The group was aborted$", error) is not None
                for rank, error in enumerate(errors)]
        self.assertIn(True, late, errors)
        for rank, error in enumerate(errors):
            if not late[rank]:
                self.assertRegex(error, f"rank {rank}: rank {1 - rank} \\(process \\d+ on .*\\) aborted the communicator")

    def test_left_behind(self):
        run(2, left_behind, timeout=5)

    def test_alone(self):
        run(3, alone, timeout=3)

    def test_aborts_while_connecting(self):
        with tempfile.TemporaryDirectory() as folder:
            run(2, aborts_while_connecting, folder)

    def test_blind(self):
        run(2, blind)


if __name__ == "__main__":
    unittest.main()
