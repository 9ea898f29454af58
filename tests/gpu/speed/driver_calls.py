"""The driver's calls that driver_facts.py makes beside a running kernel, and what is assumed of each.

A row is a generator: it prepares, yields the call that is measured, and cleans up when the kernel has ended. `assumed` is
what the stand-in does by its rules (tests/gpu/fake), `when` is where the library makes such a call.
"""
import ctypes
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
import mmap
import os

from driver import NON_BLOCKING, call, size

WAITS, RETURNS = "waits", "returns"
CREATION, IN_A_CALL, USER = "when a communicator is made or ends", "in calls: it must not wait", "never; programs do"
MIB = 1 << 20
ROWS = []


def row(name, assumed, when):
    def add(make):
        ROWS.append((name, assumed, when, make))
        return make
    return add


def simple(name, assumed, when, work):
    """A row without preparation: work(k) is the call."""
    @row(name, assumed, when)
    def _(k):
        yield lambda: work(k)


class Location(ctypes.Structure):
    _fields_ = [("type", c_int), ("id", c_int)]


class Properties(ctypes.Structure):
    """CUmemAllocationProp: pinned memory of the first GPU, that a descriptor can name."""
    _fields_ = [("type", c_int), ("handles", c_int), ("location", Location), ("security", c_void_p),
                ("flags", ctypes.c_ubyte * 8)]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", c_int)]


class PoolProperties(ctypes.Structure):
    """CUmemPoolProps"""
    _fields_ = [("type", c_int), ("handles", c_int), ("location", Location), ("security", c_void_p), ("most", c_size_t),
                ("reserved", ctypes.c_ubyte * 56)]


PROPERTIES = Properties(1, 1, Location(1, 0))


class Mapped:
    """2 MiB of memory with a handle, in steps."""

    def __init__(self, *steps):
        self.at, self.handle = c_uint64(), c_uint64()
        for step in steps:
            getattr(self, step)()

    def reserve(self):
        call("cuMemAddressReserve", byref(self.at), size(2 * MIB), size(0), c_uint64(0), c_uint64(0))

    def create(self):
        call("cuMemCreate", byref(self.handle), size(2 * MIB), byref(PROPERTIES), c_uint64(0))

    def map(self):
        call("cuMemMap", self.at, size(2 * MIB), size(0), self.handle, c_uint64(0))

    def access(self):
        call("cuMemSetAccess", self.at, size(2 * MIB), byref(Access(Location(1, 0), 3)), size(1))

    def unmap(self):
        call("cuMemUnmap", self.at, size(2 * MIB))

    def release(self):
        call("cuMemRelease", self.handle)

    def free(self):
        call("cuMemAddressFree", self.at, size(2 * MIB))

    def export(self):
        self.descriptor = c_int()
        call("cuMemExportToShareableHandle", byref(self.descriptor), self.handle, 1, c_uint64(0))

    def retain(self):
        call("cuMemRetainAllocationHandle", byref(self.handle), c_void_p(self.at.value))

    def take(self):
        call("cuMemImportFromShareableHandle", byref(self.handle), c_void_p(self.descriptor.value), 1)

    def close(self):
        os.close(self.descriptor.value)


def mapped(step, assumed, before, after, when=CREATION, name=None):
    @row(name, assumed, when)
    def _(_k):
        memory = Mapped(*before)
        yield getattr(memory, step)
        for later in after:
            getattr(memory, later)()


# ---- memory


@row("cuMemAlloc", WAITS, CREATION)
def _(k):
    made = c_uint64()
    yield lambda: call("cuMemAlloc", byref(made), size(2 * MIB))
    call("cuMemFree", made)


@row("cuMemFree", WAITS, CREATION)
def _(k):
    made = k.gpu.memory(2 * MIB)
    yield lambda: call("cuMemFree", made)


@row("cuMemHostAlloc", WAITS, CREATION)
def _(k):
    made = c_void_p()
    yield lambda: call("cuMemHostAlloc", byref(made), size(MIB), 2)
    call("cuMemFreeHost", made)


@row("cuMemFreeHost", WAITS, CREATION)
def _(k):
    made = c_void_p()
    call("cuMemHostAlloc", byref(made), size(MIB), 2)
    yield lambda: call("cuMemFreeHost", made)


def pages():
    memory = mmap.mmap(-1, MIB)
    return memory, c_void_p(ctypes.addressof(ctypes.c_ubyte.from_buffer(memory)))


@row("cuMemHostRegister", WAITS, CREATION)
def _(k):
    _memory, at = pages()
    yield lambda: call("cuMemHostRegister", at, size(MIB), 2)
    call("cuMemHostUnregister", at)


@row("cuMemHostUnregister", WAITS, CREATION)
def _(k):
    _memory, at = pages()
    call("cuMemHostRegister", at, size(MIB), 2)
    yield lambda: call("cuMemHostUnregister", at)


mapped("reserve", RETURNS, (), ("free",), name="cuMemAddressReserve")
mapped("create", WAITS, (), ("release",), name="cuMemCreate")
mapped("map", WAITS, ("reserve", "create"), ("unmap", "release", "free"), name="cuMemMap")
mapped("access", WAITS, ("reserve", "create", "map"), ("unmap", "release", "free"), name="cuMemSetAccess")
mapped("export", RETURNS, ("create",), ("close", "release"), name="cuMemExportToShareableHandle")
mapped("take", WAITS, ("create", "export", "release"), ("close", "release"), name="cuMemImportFromShareableHandle")
mapped("retain", RETURNS, ("reserve", "create", "map", "access", "release"), ("release", "unmap", "free"), IN_A_CALL,
       "cuMemRetainAllocationHandle")
mapped("unmap", WAITS, ("reserve", "create", "map", "access", "release"), ("free",), name="cuMemUnmap")
mapped("release", WAITS, ("create",), (), name="cuMemRelease")
mapped("free", RETURNS, ("reserve",), (), name="cuMemAddressFree")


@row("cuMemPoolCreate", RETURNS, USER)
def _(k):
    pool = c_void_p()
    yield lambda: call("cuMemPoolCreate", byref(pool), byref(PoolProperties(1, 0, Location(1, 0))))
    call("cuMemPoolDestroy", pool)


@row("cuMemAllocAsync, the pool grows", RETURNS, USER)
def _(k):
    made = c_uint64()
    yield lambda: call("cuMemAllocAsync", byref(made), size(64 * MIB), k.stream)
    call("cuMemFreeAsync", made, k.stream)


@row("cuMemFreeAsync", RETURNS, USER)
def _(k):
    made = c_uint64()
    call("cuMemAllocAsync", byref(made), size(2 * MIB), k.stream)
    yield lambda: call("cuMemFreeAsync", made, k.stream)


@row("cuIpcGetMemHandle", RETURNS, CREATION)
def _(k):
    made, handle = k.gpu.memory(2 * MIB), (ctypes.c_ubyte * 64)()
    yield lambda: call("cuIpcGetMemHandle", byref(handle), made)
    call("cuMemFree", made)


class IpcHandle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


@row("cuIpcOpenMemHandle, of another process", WAITS, CREATION)
def _(k):
    made, handle = c_uint64(), IpcHandle.from_buffer_copy(k.others_memory())
    yield lambda: call("cuIpcOpenMemHandle", byref(made), handle, 1)
    call("cuIpcCloseMemHandle", made)


@row("cuIpcCloseMemHandle", WAITS, CREATION)
def _(k):
    made = c_uint64()
    call("cuIpcOpenMemHandle", byref(made), IpcHandle.from_buffer_copy(k.others_memory()), 1)
    yield lambda: call("cuIpcCloseMemHandle", made)


def address_range(k):
    base, length = c_uint64(), c_size_t()
    call("cuMemGetAddressRange", byref(base), byref(length), k.memory)


def pointer_attribute(k):
    value = c_int()
    kinds, values = (c_int * 1)(2), (c_void_p * 1)(ctypes.addressof(value))  # the memory's type
    call("cuPointerGetAttributes", 1, kinds, values, k.memory)


simple("cuMemGetAddressRange", RETURNS, IN_A_CALL, address_range)
simple("cuPointerGetAttributes", RETURNS, IN_A_CALL, pointer_attribute)

# ---- code


@row("cuModuleLoadData", WAITS, CREATION)
def _(k):
    module = c_void_p()
    yield lambda: call("cuModuleLoadData", byref(module), k.image)
    call("cuModuleUnload", module)


@row("cuModuleUnload", WAITS, CREATION)
def _(k):
    module = c_void_p()
    call("cuModuleLoadData", byref(module), k.image)
    yield lambda: call("cuModuleUnload", module)


def load_library(library, k):
    call("cuLibraryLoadData", byref(library), k.image, None, None, 0, None, None, 0)


@row("cuLibraryLoadData", WAITS, CREATION)
def _(k):
    library = c_void_p()
    yield lambda: load_library(library, k)
    call("cuLibraryUnload", library)


@row("cuKernelGetFunction, the first of its library", WAITS, CREATION)
def _(k):
    library, kernel, function = c_void_p(), c_void_p(), c_void_p()
    load_library(library, k)
    call("cuLibraryGetKernel", byref(kernel), library, b"tutti_unused")
    yield lambda: call("cuKernelGetFunction", byref(function), kernel)
    call("cuLibraryUnload", library)


@row("cuLibraryUnload", WAITS, CREATION)
def _(k):
    library = c_void_p()
    load_library(library, k)
    yield lambda: call("cuLibraryUnload", library)


@row("cuLaunchKernel, the kernel's first", RETURNS, IN_A_CALL)
def _(k):
    kernel = k.gpu.kernels(k.file, "unused")["unused"]
    yield lambda: k.launch(kernel)


@row("cuLaunchKernel, the first that needs 16 KiB of local memory a thread", RETURNS, USER)
def _(k):
    kernel = k.gpu.kernels(k.file, "stack")["stack"]
    yield lambda: k.launch(kernel)


simple("cuLaunchKernel", RETURNS, IN_A_CALL, lambda k: k.launch(k.nothing))
simple("cuLaunchKernel, behind the running one", RETURNS, IN_A_CALL, lambda k: k.launch(k.nothing, k.busy))

simple("a kernel of another stream runs: cuLaunchKernel, cuStreamSynchronize", RETURNS, IN_A_CALL,
       lambda k: (k.launch(k.nothing), call("cuStreamSynchronize", k.stream)))

# ---- streams, events, graphs


@row("cuStreamCreate", RETURNS, CREATION)
def _(k):
    made = c_void_p()
    yield lambda: call("cuStreamCreate", byref(made), NON_BLOCKING)
    call("cuStreamDestroy", made)


@row("cuStreamDestroy", RETURNS, CREATION)
def _(k):
    made = k.gpu.stream()
    yield lambda: call("cuStreamDestroy", made)


@row("cuEventCreate", RETURNS, CREATION)
def _(k):
    made = c_void_p()
    yield lambda: call("cuEventCreate", byref(made), 2)  # without times
    call("cuEventDestroy", made)


@row("cuEventDestroy", RETURNS, CREATION)
def _(k):
    made = c_void_p()
    call("cuEventCreate", byref(made), 2)
    yield lambda: call("cuEventDestroy", made)


@row("cuEventRecord behind the running kernel, cuStreamWaitEvent", RETURNS, IN_A_CALL)
def _(k):
    made, waiting = c_void_p(), k.gpu.stream()
    call("cuEventCreate", byref(made), 2)
    yield lambda: (call("cuEventRecord", made, k.busy), call("cuStreamWaitEvent", waiting, made, 0))
    call("cuStreamDestroy", waiting)
    call("cuEventDestroy", made)


simple("cuStreamQuery", RETURNS, IN_A_CALL, lambda k: call("cuStreamQuery", k.stream))
simple("cuStreamSynchronize, of another stream", RETURNS, IN_A_CALL, lambda k: call("cuStreamSynchronize", k.stream))
simple("cuStreamSynchronize, of the kernel's stream", WAITS, USER, lambda k: call("cuStreamSynchronize", k.busy))
simple("cuCtxSynchronize", WAITS, USER, lambda k: call("cuCtxSynchronize"))


def capture(k):
    graph = c_void_p()
    call("cuStreamBeginCapture", k.stream, 2)
    k.launch(k.nothing)
    call("cuStreamEndCapture", k.stream, byref(graph))
    return graph


@row("a launch captured: cuStreamBeginCapture, cuStreamEndCapture", RETURNS, IN_A_CALL)
def _(k):
    made = []
    yield lambda: made.append(capture(k))
    call("cuGraphDestroy", made[0])


def graph_row(name, assumed, when, work):
    @row(name, assumed, when)
    def _(k):
        graph, executable = capture(k), c_void_p()
        call("cuGraphInstantiateWithFlags", byref(executable), graph, c_uint64(0))
        yield lambda: work(k, executable)
        call("cuStreamSynchronize", k.stream)
        if "Destroy" not in name:
            call("cuGraphExecDestroy", executable)
        call("cuGraphDestroy", graph)


@row("cuGraphInstantiate", WAITS, USER)
def _(k):
    graph, executable = capture(k), c_void_p()
    yield lambda: call("cuGraphInstantiateWithFlags", byref(executable), graph, c_uint64(0))
    call("cuGraphExecDestroy", executable)
    call("cuGraphDestroy", graph)


graph_row("cuGraphUpload", RETURNS, USER, lambda k, executable: call("cuGraphUpload", executable, k.stream))
graph_row("cuGraphLaunch", RETURNS, USER, lambda k, executable: call("cuGraphLaunch", executable, k.stream))
graph_row("cuGraphExecDestroy", RETURNS, USER, lambda k, executable: call("cuGraphExecDestroy", executable))

# ---- copies

simple("cuMemcpyHtoDAsync of 64 KiB, pinned", RETURNS, IN_A_CALL,
       lambda k: call("cuMemcpyHtoDAsync", k.memory, k.pinned, size(64 << 10), k.stream))
simple("cuMemcpyHtoDAsync of 64 KiB, pageable", RETURNS, USER,
       lambda k: call("cuMemcpyHtoDAsync", k.memory, k.pageable, size(64 << 10), k.stream))
simple("cuMemcpyHtoDAsync of 1 MiB, pageable, behind the running kernel", RETURNS, USER,
       lambda k: call("cuMemcpyHtoDAsync", k.memory, k.pageable, size(MIB), k.busy))
simple("cuMemcpyDtoHAsync of 64 KiB, pinned", RETURNS, IN_A_CALL,
       lambda k: call("cuMemcpyDtoHAsync", k.pinned, k.memory, size(64 << 10), k.stream))
simple("cuMemcpyDtoHAsync of 64 KiB, pageable", RETURNS, USER,
       lambda k: call("cuMemcpyDtoHAsync", k.pageable, k.memory, size(64 << 10), k.stream))
simple("cuMemcpyDtoDAsync of 64 KiB", RETURNS, IN_A_CALL,
       lambda k: call("cuMemcpyDtoDAsync", k.memory, c_uint64(k.memory.value + MIB), size(64 << 10), k.stream))
simple("cuMemcpyHtoD of 64 KiB, pageable", RETURNS, USER,
       lambda k: call("cuMemcpyHtoD", k.memory, k.pageable, size(64 << 10)))
simple("cuMemsetD8Async", RETURNS, IN_A_CALL, lambda k: call("cuMemsetD8Async", k.memory, 0, size(4096), k.stream))
simple("cuStreamWriteValue32", RETURNS, IN_A_CALL, lambda k: call("cuStreamWriteValue32", k.stream, k.memory, 1, 0))
simple("cuMemGetInfo", RETURNS, USER, lambda k: call("cuMemGetInfo", byref(c_size_t()), byref(c_size_t())))
