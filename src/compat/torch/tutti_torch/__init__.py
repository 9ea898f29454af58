"""Tutti as a backend of torch.distributed.

    import torch.distributed as dist
    import tutti_torch

    dist.init_process_group("tutti")

docs/pytorch.md says what it can do.
"""

import atexit
import contextlib
import sys

import torch
import torch.distributed as dist

from ._built_for import TORCH

if TORCH.split(".")[:2] != torch.__version__.split(".")[:2]:
    raise ImportError(f"tutti_torch was built for torch {TORCH}, and this is torch {torch.__version__}: build it again, "
                      "with pip install --force-reinstall --no-deps . in Tutti's sources")

from . import _C  # noqa: E402: it can be loaded beside that version only

__version__ = _C.version()
__all__ = ["counters", "count_deliveries", "empty", "last_call", "mapped_memory"]


def _make(options, backend_options):
    """Called by torch.distributed for each new process group."""
    timeout = backend_options.timeout if backend_options is not None else options.timeout
    return _C.make_group(options.store, options.group_rank, options.group_size, options.group_id, timeout)


@atexit.register
def _leave():
    """Ends groups that the program did not destroy: the other ranks learn that it needs them no more, or has failed."""
    _C.end_all(getattr(sys, "last_value", None) is not None)


def _backend(group):
    group = group if group is not None else dist.group.WORLD
    return group._get_backend(torch.device("cpu"))


def empty(*size, dtype=None):
    """torch.empty, but in memory that the ranks of this host read and write directly: it saves collectives a copy."""
    sizes = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    return _C.empty(list(sizes), dtype if dtype is not None else torch.get_default_dtype())


@contextlib.contextmanager
def mapped_memory(min_bytes=1 << 16):
    """Inside, all tensors of at least `min_bytes` that are made on the CPU are as those of `empty`.

    Each block takes a file descriptor; where none is left, memory is ordinary. Blocks that are freed serve later ones.
    """
    before = _C.map_allocations(min_bytes)
    try:
        yield
    finally:
        _C.map_allocations(before)


class _Reducer(dist.Reducer):
    """DistributedDataParallel's, with buckets in mapped memory where Tutti serves the process group."""

    def __init__(self, *args, **kinds):
        group = next(arg for arg in (*args, *kinds.values()) if isinstance(arg, dist.ProcessGroup))
        self._mapped = mapped_memory if _serves(group) else contextlib.nullcontext
        with self._mapped():
            super().__init__(*args, **kinds)

    def _rebuild_buckets(self):
        with self._mapped():
            return super()._rebuild_buckets()


def _serves(group):
    try:
        return _backend(group).name() == "tutti"
    except RuntimeError:  # it has no backend for host tensors
        return False


dist.Reducer = _Reducer


def last_call(group=None):
    """How this rank's last collective went: {"algorithm": …, "transport": …, "delivery": …}."""
    return _C.last_call(_backend(group))


def count_deliveries(on=True, group=None):
    """From now on `counters` counts the ways in which calls' messages were delivered."""
    _C.count_deliveries(_backend(group), on)


def counters(group=None):
    """Blocks and bytes of mapped memory that tensors hold, and how many calls delivered their messages how."""
    blocks, held = _C.mapped_now()
    return {"mapped_blocks": blocks, "mapped_bytes": held, "deliveries": _C.deliveries(_backend(group))}


dist.Backend.register_backend("tutti", _make, extended_api=True, devices=["cpu"])
