"""Operations that run while Python goes on: futures, limits, signals, and what ten thousand leave."""

import os
import resource
import signal
import threading
import time
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist
import tutti_torch
from ranks import run


def futures(rank, ranks):
    data = torch.full((1000,), float(rank))
    work = dist.all_reduce(data, async_op=True)
    future = work.get_future()
    doubled = future.then(lambda done: done.value()[0] * 2)
    assert (doubled.wait() == 2 * sum(range(ranks))).all()
    work.wait()
    work.synchronize()
    assert work.is_completed() and work.is_success() and (data == sum(range(ranks))).all()
    nested = dist.all_reduce(torch.ones(1), async_op=True).get_future().then(
        lambda done: dist.all_reduce(done.value()[0], async_op=True).get_future().wait()[0])
    assert nested.wait().item() == ranks * ranks


def overlaps(rank, ranks):
    """Python goes on while rank 1 has not come yet."""
    data = torch.ones(10)
    if rank == 1:
        dist.distributed_c10d._get_default_store().wait(["go"])
    start = time.monotonic()
    work = dist.all_reduce(data, async_op=True)
    if rank == 0:
        assert not work.is_completed()
        ticks = 0
        waiter = threading.Thread(target=work.wait)
        waiter.start()
        while ticks < 1000:  # this thread has the interpreter while the other one waits
            ticks += 1
        assert waiter.is_alive()
        dist.distributed_c10d._get_default_store().set("go", "1")
        waiter.join()
    work.wait()
    assert (data == ranks).all() and time.monotonic() - start < 60


def overlaps_backward(rank, ranks):
    """Rank 0's backward ends while a gradient's all-reduce, begun in it, waits for rank 1, which has not begun."""
    store = dist.distributed_c10d._get_default_store()
    layers = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(4)))
    pending = []
    for parameter in layers.parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: pending.append(dist.all_reduce(p.grad, async_op=True)))
    if rank == 1:
        store.wait(["backward is over"])
    layers(torch.full((2, 8), rank + 1.0)).sum().backward()
    if rank == 0:
        assert not any(work.is_completed() for work in pending)
        store.set("backward is over", "1")
    for work in pending:
        work.wait()
    assert len(pending) == 8 and layers[3].bias.grad.tolist() == [2.0 * ranks] * 8


def limits(rank, ranks):
    if rank == 0:
        work = dist.all_reduce(torch.ones(1), async_op=True)
        try:
            work.wait(timedelta(milliseconds=200))
            raise AssertionError("no error")
        except RuntimeError as error:
            assert "all_reduce" in str(error) and "0.2 s" in str(error), error
        dist.distributed_c10d._get_default_store().set("late", "1")
        work.wait()
    else:
        dist.distributed_c10d._get_default_store().wait(["late"])
        dist.all_reduce(torch.ones(1))


WAITS = {
    "all_reduce": lambda: dist.all_reduce(torch.ones(1)),
    "async all_reduce": lambda: dist.all_reduce(torch.ones(1), async_op=True).wait(),
    "recv": lambda: dist.recv(torch.ones(1), 1),
    "barrier": dist.barrier,
    "monitored_barrier": lambda: dist.group.WORLD.monitored_barrier(timedelta(seconds=60)),
    "new_group": lambda: dist.new_group([0, 1], backend="tutti"),
}


def interrupted(rank, ranks, wait):
    """Ctrl-C ends a wait for a rank that does not come."""
    store = dist.distributed_c10d._get_default_store()
    if rank == 1:
        store.wait(["interrupted"])
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    try:
        WAITS[wait]()
        raise AssertionError("not interrupted")
    except KeyboardInterrupt:
        assert time.monotonic() - start < 10
    store.set("interrupted", "1")
    dist.group.WORLD._get_backend(torch.device("cpu")).abort()


def counts():
    with open("/proc/self/status") as lines:
        status = dict(line.split(":", 1) for line in lines)
    return int(status["VmRSS"].split()[0]), len(os.listdir("/proc/self/fd")), int(status["Threads"])


def ten_thousand(rank, ranks):
    def some(times):
        peer = 1 - rank
        for turn in range(times):
            works = [dist.all_reduce(torch.ones(100), async_op=True),
                     dist.all_gather_into_tensor(torch.empty(200), torch.ones(100), async_op=True),
                     dist.isend(torch.ones(10), peer), dist.irecv(torch.empty(10), peer)]
            if turn % 10 == 0:
                works[0].get_future().then(lambda done: None).wait()
            for work in works:
                work.wait()

    some(300)
    before = counts()
    some(2500)
    after = counts()
    assert after[1:] == before[1:], (before, after)
    assert after[0] - before[0] < 4096, (before, after)  # KiB
    return before, after


class Async(unittest.TestCase):
    def test_futures(self):
        run(2, futures)

    def test_python_goes_on(self):
        run(2, overlaps)

    def test_backward_goes_on(self):
        run(2, overlaps_backward)

    def test_limits(self):
        run(2, limits)

    def test_interrupts(self):
        for wait in WAITS:
            with self.subTest(wait=wait):
                run(2, interrupted, wait, may_die=(1,))

    def test_ten_thousand_leave_nothing(self):
        print(run(2, ten_thousand, within=300))


if __name__ == "__main__":
    unittest.main()
