"""Helpers of the tests that run PyTorch on the stand-ins for CUDA's driver and runtime (tests/gpu/fake, fake_runtime).

PyTorch is real here, with its allocator, streams, events and graphs; but none of its kernels runs. So data are made on
the host, and what is copied on the GPU is contiguous.
"""

import contextlib
import ctypes
import os
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import torch  # noqa: E402


def use_gpu(rank):
    torch.cuda.set_device(rank % torch.cuda.device_count())
    return torch.device("cuda", torch.cuda.current_device())


def skipped():
    """How many of PyTorch's kernels this process has launched: none of them ran."""
    library = next(path for path in os.environ["LD_PRELOAD"].split(":") if "fake_runtime" in path)
    count = ctypes.CDLL(library).fake_runtime_skipped
    count.restype = ctypes.c_uint64
    return count()


@contextlib.contextmanager
def held(stream=None):
    """What is enqueued on the stream inside runs only afterwards: a function of the host's stands before it."""
    stream = stream if stream is not None else torch.cuda.current_stream()
    go = threading.Event()
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: go.wait())
    driver = ctypes.CDLL("libcuda.so.1")
    assert driver.cuLaunchHostFunc(ctypes.c_void_p(stream.cuda_stream), function, None) == 0
    try:
        yield
    finally:
        go.set()
        stream.synchronize()  # the function must outlive its call


@contextlib.contextmanager
def refused(function, result):
    """The driver's function fails with this error inside."""
    refuse = ctypes.CDLL("libcuda.so.1").fake_cuda_refuse
    refuse.argtypes = ctypes.c_char_p, ctypes.c_int
    refuse(function.encode(), result)
    try:
        yield
    finally:
        refuse(function.encode(), 0)


def eventually(condition, within=30):
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it has not come true"
        time.sleep(0.005)


def same(actual, expected):
    actual = actual.cpu()
    assert actual.dtype == expected.dtype and actual.shape == expected.shape, (actual, expected)
    bits = [t.contiguous().view(-1).view(torch.uint8) for t in (actual, expected)]
    assert torch.equal(*bits), (actual, expected)
