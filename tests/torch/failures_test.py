"""A rank that dies, that makes another call, that does not come: every other rank gets an error which says so."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist
from ranks import error_of, run

FAILING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "failing_program.py")


def killed(rank, ranks):
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    text = error_of(dist.all_reduce, torch.ones(1000))
    took = time.monotonic() - start
    dist.destroy_process_group()
    return text, took, time.monotonic() - start


def mismatched(rank, ranks, is_async):
    if rank == 0:
        text = error_of(dist.all_reduce, torch.ones(10), async_op=is_async)
    else:
        text = error_of(dist.all_gather_into_tensor, torch.empty(ranks * 4), torch.ones(4), async_op=is_async)
    start = time.monotonic()
    with_error = error_of(dist.destroy_process_group) if rank < 0 else None
    return text, with_error, time.monotonic() - start


def late(rank, ranks):
    if rank == 1:
        try:
            dist.distributed_c10d._get_default_store().wait(["done"])
        finally:
            return None
    text = error_of(dist.all_reduce, torch.ones(10))
    dist.distributed_c10d._get_default_store().set("done", "1")
    return text


def late_for_one_call(rank, ranks):
    """A time-out among a call's options holds for that call alone."""
    store = dist.distributed_c10d._get_default_store()
    options = dist.AllreduceOptions()
    options.timeout = timedelta(seconds=30)
    dist.group.WORLD._get_backend(torch.device("cpu")).allreduce([torch.ones(1)], options).wait()
    if rank == 1:
        store.wait(["done"])
        return
    options.timeout, options.asyncOp = timedelta(seconds=0.5), True
    start = time.monotonic()
    text = error_of(dist.group.WORLD._get_backend(torch.device("cpu")).allreduce, [torch.ones(1)], options)
    assert "timed out (a timeout of 0.5 s is set)" in text and time.monotonic() - start < 5, text
    assert "Raise init_process_group(timeout=...) or the call's own timeout" in text, text
    store.set("done", "1")


def late_after_set_timeout(rank, ranks):
    store = dist.distributed_c10d._get_default_store()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert backend.options._timeout == timedelta(seconds=60)
    backend._set_default_timeout(timedelta(seconds=0.5))
    assert backend.options._timeout == timedelta(seconds=0.5)
    if rank == 1:
        store.wait(["done"])
        return
    start = time.monotonic()
    text = error_of(dist.all_reduce, torch.ones(1))
    assert "timed out (a timeout of 0.5 s is set)" in text and time.monotonic() - start < 5, text
    store.set("done", "1")


def unsent(rank, ranks):
    store = dist.distributed_c10d._get_default_store()
    if rank == 1:
        store.wait(["done"])
        dist.send(torch.ones(4), 0, tag=7)
        return None
    text = error_of(dist.recv, torch.empty(4), 1, tag=6)
    store.set("done", "1")
    got = torch.empty(4)
    dist.recv(got, 1, tag=7)  # the group is still usable
    assert got.sum() == 4
    return text


def sender_killed(rank, ranks, has_sent, any_source):
    store = dist.distributed_c10d._get_default_store()
    if rank == 1:
        if has_sent:
            dist.send(torch.ones(1), 0)
        store.wait(["ready"])  # a death while the other rank makes the group is told there
        os.kill(os.getpid(), signal.SIGKILL)
    if has_sent:
        dist.recv(torch.empty(1), 1)
    store.set("ready", "1")
    start = time.monotonic()
    text = error_of(dist.recv, torch.empty(1), None if any_source else 1)
    return text, time.monotonic() - start


def aborted(rank, ranks):
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    if rank == 0:
        work = dist.all_reduce(torch.ones(1), async_op=True)
        backend.abort()
        return error_of(work.wait)
    return error_of(dist.all_gather_into_tensor, torch.empty(ranks), torch.ones(1))


def monitored(rank, ranks):
    group = dist.group.WORLD
    store = dist.distributed_c10d._get_default_store()
    group.monitored_barrier(timedelta(seconds=20))
    if rank == 1:
        store.wait(["missed"])
        text = None
    else:
        text = error_of(group.monitored_barrier, timedelta(seconds=0.3))
        store.set("missed", "1")
    dist.all_reduce(torch.ones(1))  # the group is still usable
    return text


def monitored_all(rank, ranks):
    """It names every rank that is missing, not only the first."""
    group, store = dist.group.WORLD, dist.distributed_c10d._get_default_store()
    if rank in (1, 3):
        store.wait(["missed"])
        return None
    text = error_of(group.monitored_barrier, timedelta(seconds=0.3), True)
    store.add("told", 1)
    if rank == 0:
        store.set("missed", "1")
    return text


def future_of_a_failure(rank, ranks):
    """What an asynchronous operation that fails tells: its future and its state."""
    if rank == 1:
        return error_of(dist.all_gather_into_tensor, torch.empty(ranks), torch.ones(1))
    work = dist.all_reduce(torch.ones(3), async_op=True)
    text = error_of(work.get_future().wait)
    assert work.is_completed() and not work.is_success()
    return text


def missing_at_init(rank, ranks, folder):
    if rank == 1:
        return None
    start = time.monotonic()
    text = error_of(dist.init_process_group, "tutti", init_method=f"file://{folder}/s", rank=0, world_size=2,
                    timeout=timedelta(seconds=1))
    return text, time.monotonic() - start


class Failures(unittest.TestCase):
    def test_a_rank_is_killed(self):
        results = run(3, killed, may_die=(1,))
        for rank in (0, 2):
            text, took, ended = results[rank]
            self.assertIn("DistBackendError", text)
            self.assertRegex(text, rf"rank {rank}\b")
            self.assertRegex(text, r"rank 1\b")
            self.assertLess(ended, 2)

    def test_calls_differ(self):
        for is_async in (False, True):
            for text, _, _ in run(2, mismatched, is_async):
                self.assertIn("all_reduce(count=10, f32, sum)", text)
                self.assertIn("all_gather(count=4, f32)", text)
                self.assertIn("rank 0", text)
                self.assertIn("rank 1", text)

    def test_a_rank_does_not_come(self):
        text = run(2, late, timeout=1)[0]
        self.assertIn("rank 1", text)
        self.assertIn("all_reduce(count=10, f32, sum)", text)
        self.assertIn("timed out (a timeout of 1 s is set)", text)
        self.assertIn("group '0' (default_pg)", text)
        self.assertIn("Raise init_process_group(timeout=...) or the call's own timeout if", text)

    def test_a_time_out_of_one_call_and_one_that_is_set(self):
        run(2, late_for_one_call, timeout=60)
        run(2, late_after_set_timeout, timeout=60)

    def test_a_message_does_not_come(self):
        text = run(2, unsent, timeout=1)[0]
        self.assertIn("recv(4 elements of Float from rank 1, tag 6), call 1 of group '0' (default_pg), timed out", text)
        self.assertIn("rank 0", text)

    def test_a_sender_is_killed(self):
        for has_sent in (True, False):
            for any_source in (False, True):
                with self.subTest(has_sent=has_sent, any_source=any_source):
                    text, took = run(2, sender_killed, has_sent, any_source, timeout=20, may_die=(1,))[0]
                    self.assertRegex(text, r"rank 1\b")
                    self.assertLess(took, 3, text)

    def test_abort(self):
        for text in run(2, aborted):
            self.assertIn("abort", text)

    def test_monitored_barrier_names_the_missing(self):
        results = run(3, monitored)
        self.assertIn("[Rank 0]: Rank 1 failed to pass monitoredBarrier in 300 ms", results[0])
        self.assertIn("Rank 2 successfully reached monitoredBarrier, but received errors while waiting for send/recv from "
                      "rank 0", results[2])
        for rank, text in enumerate(run(4, monitored_all)):
            if rank in (0, 2):
                self.assertIn("Ranks 1, 3 failed to pass monitoredBarrier", text)

    def test_a_future_tells_the_failure(self):
        for text in run(2, future_of_a_failure):
            self.assertIn("all_reduce(count=3, f32, sum)", text)
            self.assertIn("all_gather(count=1, f32)", text)

    def test_programs_end(self):
        """A program that does nothing about the error ends with it, soon, and prints the whole text."""
        for failure in ("killed", "mismatch", "late"):
            with self.subTest(failure=failure), tempfile.TemporaryDirectory() as folder:
                pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
                command = [sys.executable, FAILING, failure, f"{folder}/store"]
                programs = [subprocess.Popen([*command, str(rank)], text=True, **pipes) for rank in range(2)]
                for rank, program in enumerate(programs):  # the late rank makes its call when its input is closed
                    began, text = program.communicate(timeout=60)
                    took = time.time() - float(began)
                    if program.returncode == -signal.SIGKILL:
                        continue
                    print(f"{failure}, rank {rank}: ended after {took:.2f} s")
                    self.assertEqual(program.returncode, 1)
                    self.assertRegex(text, r"DistBackendError: (timed out .*: )?(rank|call)")
                    self.assertIn(f"rank {1 - rank}", text)
                    if failure == "mismatch":
                        self.assertIn("all_reduce(count=10, f32, sum)", text)
                        self.assertIn("all_gather(count=4, f32)", text)
                    self.assertLess(took, 2.5 if failure == "late" else 2)  # half a second is the time-out

    def test_a_rank_is_missing_at_init(self):
        with tempfile.TemporaryDirectory() as folder:
            text, took = run(2, missing_at_init, folder, init=False)[0]
        self.assertLess(took, 10)
        print(text)


if __name__ == "__main__":
    unittest.main()
