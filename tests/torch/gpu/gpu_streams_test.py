"""Order on streams: what waits for what, how long tensors are kept, and calls in graphs."""

import contextlib
import os
import threading
import time
import unittest
from unittest import mock

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode
from stand_in import eventually, held, refused, same, skipped, use_gpu
from ranks import error_of, run

FREEING = ["cuMemFree", "cuMemFreeHost", "cuMemHostUnregister", "cuMemUnmap", "cuIpcCloseMemHandle", "cuLibraryUnload"]


def connected(rank):
    """Where a stream is held, nothing may be allocated: drivers may wait for all that runs, as the stand-in does. So
    the communicator is made before, and blocks of memory are in PyTorch's cache."""
    device = use_gpu(rank)
    dist.all_reduce(torch.ones(1).cuda())
    block = torch.empty(1 << 22, device="cuda")
    torch.cuda.synchronize()
    del block
    return device


def wait_is_the_streams(rank, ranks):
    """The caller's stream is held: the call comes after what is before it, and `wait` holds the stream, not the host."""
    connected(rank)
    data, before, after = torch.zeros(70001).cuda(), torch.ones(70001).cuda(), torch.empty(70001, device="cuda")
    first = torch.zeros(1000).cuda()
    # The calls of a communicator are in order on whatever streams. Only PyTorch's events order the copy and the call.
    dist.all_reduce(first, async_op=True).wait()
    torch.cuda.synchronize()
    with held():
        data.copy_(before)
        work = dist.all_reduce(data, async_op=True)
        work.wait()
        work.synchronize()
        after.copy_(data)
        assert not work.is_completed() and work.is_success()
    with held():
        first.copy_(before[:1000])
        dist.all_reduce(first)  # on this stream itself
    same(first, torch.full((1000,), float(ranks)))
    same(after, torch.full((70001,), float(ranks)))
    assert work.is_completed() and work.is_success() and work.exception() is None
    assert skipped() == 0


def own_stream(rank, ranks):
    """A call that is not waited for runs beside what the caller enqueues behind it; a call that is waited for does not."""
    connected(rank)
    data, copy = torch.ones(1000).cuda(), torch.empty(1000, device="cuda")
    dist.all_reduce(data)
    torch.cuda.synchronize()
    work = dist.all_reduce(data, async_op=True)
    with held():
        eventually(work.is_completed)
    behind = torch.cuda.Event()
    with held():
        dist.all_reduce(data)
        behind.record()
        time.sleep(0.05)
        assert not behind.query()  # it is behind what holds the stream
    same(data, torch.full((1000,), float(ranks**3)))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work = dist.all_reduce(data, async_op=True)
    with held():  # the default stream: neither the call nor the wait is there
        with torch.cuda.stream(side):
            work.wait()
            copy.copy_(data)
        side.synchronize()
    same(copy, torch.full((1000,), float(ranks**4)))
    assert skipped() == 0


def tensors_are_kept(rank, ranks):
    connected(rank)
    count = 1 << 20
    base = torch.cuda.memory_allocated()

    def call():
        return dist.all_reduce(torch.empty(count, device="cuda"), async_op=True)

    used = lambda: torch.cuda.memory_allocated() - base  # noqa: E731
    with held():
        work = call()
        assert used() >= 4 * count
        work.wait()  # what uses the memory next is behind the call
        assert work.result()[0].numel() == count
        del work
        assert used() == 0, used()
    with held():
        work = call()
        with torch.cuda.stream(torch.cuda.Stream()):
            work.wait()  # this stream does not own the memory
        del work
        time.sleep(0.05)
        assert used() >= 4 * count
    eventually(lambda: used() == 0)
    with held():
        call()  # nobody waits for it
        time.sleep(0.05)
        assert used() >= 4 * count
    eventually(lambda: used() == 0)
    # A result that is copied on the communicator's stream: its temporary block is not another call's.
    outs = [[torch.empty(1000, device="cuda") for _ in range(ranks)] for _ in range(8)]
    works = [dist.all_gather(out, torch.full((1000,), float(rank * 10 + i)).cuda(), async_op=True)
             for i, out in enumerate(outs)]
    for work in works:
        work.wait()
    for i, out in enumerate(outs):
        for r in range(ranks):
            same(out[r], torch.full((1000,), float(r * 10 + i)))
    assert skipped() == 0


class AtFirstCopy(TorchDispatchMode):
    """Calls `action` before the first copy that is enqueued inside."""

    def __init__(self, action):
        super().__init__()
        self.action = action

    def __torch_dispatch__(self, function, types, arguments=(), kinds=None):
        if function is torch.ops.aten.copy_.default and self.action is not None:
            action, self.action = self.action, None
            action()
        return function(*arguments, **(kinds or {}))


def asynchronous():
    options = dist.distributed_c10d.AllgatherOptions()
    options.asyncOp = True
    return options


def kept_behind_a_failure(rank, ranks):
    """An error after a call was launched: the launch has the tensors."""
    connected(rank)
    count = 1 << 19
    whole = [torch.empty(count, device="cuda") for _ in range(ranks)][::-1]  # not in the order of memory: copied
    dist.all_gather(whole, torch.empty(count, device="cuda"), async_op=True).wait()
    torch.cuda.synchronize()  # from here on, the communicator's stream has memory for the results in PyTorch's cache
    del whole
    base = torch.cuda.memory_allocated()
    used = lambda: torch.cuda.memory_allocated() - base  # noqa: E731
    with held():
        whole = [torch.empty(count, device="cuda"), torch.empty(1, device="cuda").expand(count)]
        text = error_of(dist.all_gather, whole, torch.empty(count, device="cuda"), async_op=True)
        assert "single memory location" in text, text  # the second result cannot be copied to where it should lie
        del whole
        assert used() >= 8 * count, used()
    eventually(lambda: used() == 0)
    with held(), contextlib.ExitStack() as stack:  # nor can the end of what was launched be recorded
        whole = [torch.empty(count, device="cuda") for _ in range(ranks)][::-1]
        gather = dist.group.WORLD._get_backend(whole[0].device).allgather
        with AtFirstCopy(lambda: stack.enter_context(refused("cuEventRecord", 999))):
            text = error_of(gather, [whole], [torch.empty(count, device="cuda")], asynchronous())
        assert "CUDA error" in text, text
        del whole
    torch.cuda.synchronize()
    assert used() >= 8 * count, used()
    data = torch.ones(10).cuda()
    dist.all_reduce(data, async_op=True).wait()
    same(data, torch.full((10,), float(ranks)))
    del data
    assert skipped() == 0
    dist.destroy_process_group()
    assert used() == 0, used()


def kept_at_the_end(rank, ranks, in_time):
    """The group is shut down while copies of a result are held behind their call: they use the tensors."""
    device = connected(rank)
    count = 1 << 19
    base = torch.cuda.memory_allocated()
    used = lambda: torch.cuda.memory_allocated() - base  # noqa: E731
    backend = dist.group.WORLD._get_backend(device)
    closing = threading.Thread(target=backend.shutdown)
    with contextlib.ExitStack() as stack:
        whole = [torch.empty(count, device="cuda") for _ in range(ranks)][::-1]  # not in the order of memory: copied
        with AtFirstCopy(lambda: stack.enter_context(held())):  # on the current stream, as the backend has set it
            backend.allgather([whole], [torch.empty(count, device="cuda")], asynchronous())
        del whole
        for function in FREEING:  # here these wait for all that the GPU has to do, and so leaving would
            stack.enter_context(refused(function, 999))
        closing.start()
        closing.join(timeout=1 if in_time else None)
        assert used() >= 8 * count, used()
        assert closing.is_alive() == in_time
    closing.join()
    assert used() == 0 or not in_time, used()


def futures(rank, ranks):
    connected(rank)
    data, copy = torch.ones(1000).cuda(), torch.empty(1000, device="cuda")
    seen = []
    with held():
        work = dist.all_reduce(data, async_op=True)
        future = work.get_future()
        assert future.done()  # the GPU's part is in the streams
        chained = future.then(lambda done: (seen.append(done.value()[0].data_ptr()), copy.copy_(done.value()[0]))[1])
    chained.wait()
    same(copy, torch.full((1000,), float(ranks)))
    assert seen == [data.data_ptr()]
    bucket = torch.ones(10).cuda()  # as DistributedDataParallel's hooks use it
    same(dist.all_reduce(bucket, async_op=True).get_future().wait()[0], torch.full((10,), float(ranks)))
    assert skipped() == 0


def graphs(rank, ranks):
    use_gpu(rank)
    source, data, copy = torch.ones(1000).cuda(), torch.zeros(1000).cuda(), torch.zeros(1000).cuda()
    whole = torch.zeros(1000 * ranks).cuda()

    def step():
        data.copy_(source)
        dist.all_reduce(data)
        work = dist.all_gather_into_tensor(whole, data, async_op=True)
        work.wait()
        batch = dist.batch_isend_irecv([dist.P2POp(dist.isend, data, (rank + 1) % ranks),
                                        dist.P2POp(dist.irecv, copy, (rank - 1) % ranks)])
        for each in batch:
            each.wait()
        return work

    def capture_first():
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            step()

    text = error_of(capture_first)
    assert "make a call of this kind before" in text, text
    torch.cuda.synchronize()
    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    running = [dist.all_reduce(torch.ones(9).cuda(), async_op=True) for _ in range(3)]  # watched during the capture
    with torch.cuda.graph(graph):
        time.sleep(0.1)
        captured = step()
    assert captured.is_completed()
    for work in running:
        work.wait()
    for value in (1.0, 2.0, 5.0):
        source.copy_(torch.full((1000,), value).cuda())
        graph.replay()
        torch.cuda.synchronize()
        expected = torch.full((1000,), value * ranks)
        same(data, expected)
        same(copy, expected)
        same(whole, torch.full((1000 * ranks,), value * ranks))
    dist.all_reduce(data)  # and calls go on
    same(data, torch.full((1000,), 5.0 * ranks * ranks))
    assert skipped() == 0


def polled(rank, ranks):
    """A thread that has the interpreter asks for a message's state while another one waits until it is enqueued."""
    use_gpu(rank)
    store = dist.distributed_c10d._get_default_store()
    data = torch.full((10,), float(rank)).cuda()
    if rank == 1:
        store.wait(["polled"])
        time.sleep(0.1)
        dist.send(data, 0)
        return
    work = dist.irecv(data, 1)


    def poll():
        while not work.is_completed():
            pass

    poller = threading.Thread(target=poll)
    poller.start()
    store.set("polled", "1")
    work.get_future().wait()  # unlike `wait`, it is called with the interpreter's lock
    poller.join()
    same(data, torch.ones(10))


def host_waits(rank, ranks):
    """With a time `wait` is the host's, and so is a barrier's."""
    connected(rank)
    data = torch.ones(10).cuda()
    dist.all_reduce(data)
    torch.cuda.synchronize()
    from datetime import timedelta

    with held():
        work = dist.all_reduce(data, async_op=True)
        text = error_of(work.wait, timedelta(seconds=0.1))
        assert "timed out" in text and "The call still runs" in text, text
    assert work.wait(timedelta(seconds=30)) and work.is_completed()
    barrier = dist.barrier(device_ids=[torch.cuda.current_device()], async_op=True)
    assert barrier.wait() is not False and barrier.is_completed()
    same(data, torch.full((10,), float(ranks**2)))


class Streams(unittest.TestCase):
    def test_wait_is_the_streams(self):
        run(2, wait_is_the_streams)

    def test_own_stream(self):
        run(2, own_stream)

    def test_tensors_are_kept(self):
        run(2, tensors_are_kept)

    def test_kept_behind_a_failure(self):
        run(2, kept_behind_a_failure)

    def test_kept_at_the_end(self):
        for in_time in (True, False):
            with self.subTest(in_time=in_time), mock.patch.dict(os.environ, FAKE_CUDA_RULES="queue"):
                run(2, kept_at_the_end, in_time)

    def test_polled(self):
        run(2, polled, within=30)

    def test_futures(self):
        run(2, futures)

    def test_graphs(self):
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                run(ranks, graphs)

    def test_host_waits(self):
        run(2, host_waits)


if __name__ == "__main__":
    unittest.main()
