"""Tutti as a backend of torch.distributed.

    import torch.distributed as dist

    dist.init_process_group("tutti")

torch finds the backend by itself where this package is installed; `import tutti_torch` registers it too.
docs/pytorch.md says what it can do.
"""

import atexit
import contextlib
import functools
import os
import sys

import torch
import torch.distributed as dist

__all__ = ["count_deliveries", "counters", "empty", "last_call", "mapped_memory", "window"]


def __dir__():
    return [*__all__, "__version__"]


def __getattr__(name):
    if name == "__version__":
        return _native().version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@functools.cache
def _native():
    """The compiled part. It is loaded when it is first needed, since `import torch` imports this module."""
    from ._built_for import TORCH

    if TORCH.split(".")[:2] != torch.__version__.split(".")[:2]:
        raise ImportError(f"tutti_torch was built for torch {TORCH}, and this is torch {torch.__version__}: build it "
                          "again, with pip install --force-reinstall --no-deps . in Tutti's sources")
    from . import _C  # it can be loaded beside that version only

    # The module for GPUs lies here, also where a wheel's libraries were moved elsewhere.
    _C.set_default("TUTTI_MODULE_PATH", os.path.dirname(os.path.abspath(__file__)))
    atexit.register(_leave)
    if hasattr(_C, "kept"):
        _keep_symmetric_memory(_C.kept)
    return _C


def _keep_symmetric_memory(kept):
    """torch's tensors of a peer's symmetric memory do not keep it mapped. Those that Tutti's handles make do."""
    from torch._C._distributed_c10d import _SymmetricMemory

    def keeping(method):
        @functools.wraps(method)
        def piece(handle, *args, **kinds):
            return kept(handle, method(handle, *args, **kinds))

        return piece

    for name in "get_buffer", "get_signal_pad", "get_remote_tensor":
        setattr(_SymmetricMemory, name, keeping(getattr(_SymmetricMemory, name)))


def _make(options, backend_options):
    """Called by torch.distributed for each new process group."""
    _take_over_reducer()
    timeout = backend_options.timeout if backend_options is not None else options.timeout
    name = f"group '{options.group_id}'"
    if not options.global_ranks_in_group:  # the default group's ranks are not listed
        name += " (default_pg)"
    return _native().make_group(options.store, options.group_rank, options.group_size, name, timeout)


def _leave():
    """Ends groups that the program did not destroy: the other ranks learn that it needs them no more, or has failed."""
    _native().end_all(getattr(sys, "last_value", None) is not None)


def _backend(group):
    group = group if group is not None else dist.group.WORLD
    devices = group._device_types
    return group._get_backend(torch.device("cpu") if torch.device("cpu") in devices or not devices else devices[0])


def empty(*size, dtype=None):
    """torch.empty, but in memory that the ranks of this host read and write directly: it saves collectives a copy."""
    sizes = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    return _native().empty(list(sizes), dtype if dtype is not None else torch.get_default_dtype())


@contextlib.contextmanager
def mapped_memory(min_bytes=1 << 16):
    """Inside, all tensors of at least `min_bytes` that are made on the CPU are as those of `empty`.

    Each block takes a file descriptor; where none is left, memory is ordinary. Blocks that are freed serve later ones.
    """
    before = _native().map_allocations(min_bytes)
    try:
        yield
    finally:
        _native().map_allocations(before)


@functools.cache
def _take_over_reducer():
    """DistributedDataParallel's buckets are mapped memory where Tutti serves the process group."""

    class Reducer(dist.Reducer):
        def __init__(self, *args, **kinds):
            group = next(arg for arg in (*args, *kinds.values()) if isinstance(arg, dist.ProcessGroup))
            self._mapped = mapped_memory if _serves(group) else contextlib.nullcontext
            with self._mapped():
                super().__init__(*args, **kinds)

        def _rebuild_buckets(self):
            with self._mapped():
                return super()._rebuild_buckets()

    dist.Reducer = Reducer


def _serves(group):
    try:
        return _backend(group).name() == "tutti"
    except RuntimeError:  # it has no backend for host tensors
        return False


def window(tensor, group=None):
    """Makes a contiguous tensor of the CPU one that all ranks of the group write and read, without a call of its rank.

    All ranks call it, at the same place among their calls, with tensors of one dtype and any length. Best are those of
    `empty`: ranks of the host write them directly. Returns a Window, whose close() all ranks call too.
    """
    return _native().window(_backend(group), tensor)


def last_call(group=None):
    """How this rank's last collective went: {"algorithm": …, "transport": …, "delivery": …}."""
    return _native().last_call(_backend(group))


def count_deliveries(on=True, group=None):
    """From now on `counters` counts the ways in which calls' messages were delivered."""
    _native().count_deliveries(_backend(group), on)


def counters(group=None):
    """Blocks and bytes of mapped memory that tensors hold, and how many calls delivered their messages how."""
    blocks, held = _native().mapped_now()
    return {"mapped_blocks": blocks, "mapped_bytes": held, "deliveries": _native().deliveries(_backend(group))}


if dist.is_available():
    dist.Backend.register_backend("tutti", _make, extended_api=True, devices=["cpu", "cuda"])
