"""Runs a function on several ranks: each a fork of this process, which has imported torch once."""

import contextlib
import multiprocessing
import os
import random
import socket
import tempfile
import time
import traceback
import warnings
from datetime import timedelta

import torch
import torch.distributed as dist
import tutti_torch  # noqa: F401: registers the backend

_fork = multiprocessing.get_context("fork")


def _rank(function, rank, ranks, backend, store, timeout, init, pipe, args):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    warnings.filterwarnings("ignore", "ComplexHalf support is|.*all_gather_coalesced. will be")
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank))
    try:
        if init:
            dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=ranks,
                                    timeout=timedelta(seconds=timeout))
        result = function(rank, ranks, *args)
        if init and dist.is_initialized():
            dist.destroy_process_group()
        pipe.send((True, result))
    except BaseException:  # noqa: B036: whatever it is, the test reports it
        pipe.send((False, traceback.format_exc()))
        pipe.close()
        os._exit(1)
    pipe.close()
    os._exit(0)


def run(ranks, function, *args, backend="tutti", timeout=60, init=True, within=120, may_die=()):
    """The ranks' results, in order. Raises AssertionError with the texts of those that failed; ranks in `may_die` may
    end without a result."""
    with tempfile.TemporaryDirectory() as folder:
        pipes, processes = [], []
        for rank in range(ranks):
            receiver, sender = _fork.Pipe(duplex=False)
            process = _fork.Process(target=_rank, daemon=True, args=(
                function, rank, ranks, backend, f"{folder}/store", timeout, init, sender, args))
            process.start()
            sender.close()
            pipes.append(receiver)
            processes.append(process)
        results, failures, deadline = [None] * ranks, [], time.monotonic() + within
        for rank, pipe in enumerate(pipes):
            try:
                if not pipe.poll(max(0, deadline - time.monotonic())):
                    raise EOFError("no result in time")
                done, results[rank] = pipe.recv()
                if not done and rank not in may_die:
                    failures.append(f"rank {rank}:\n{results[rank]}")
            except EOFError as error:
                if rank not in may_die:
                    failures.append(f"rank {rank}: {error or 'died'}")
        for process in processes:
            process.join(max(0.1, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        if failures:
            raise AssertionError("\n".join(failures))
        return results


def error_of(call, *args, **kinds):
    """The text of the error that `call` raises."""
    try:
        result = call(*args, **kinds)
        if hasattr(result, "wait"):
            result.wait()
    except Exception as error:  # noqa: BLE001: any
        return f"{type(error).__name__}: {error}"
    raise AssertionError(f"{call.__name__} raised nothing")


def free_ports(count):
    """Not among those that the kernel gives to outgoing connections, one of which may have taken it meanwhile."""
    ports = []
    for port in random.sample(range(20000, 32000), 1000):
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            ports.append(port)
        if len(ports) == count:
            return ports
    raise RuntimeError(f"fewer than {count} ports from 20000 to 31999 are free")
