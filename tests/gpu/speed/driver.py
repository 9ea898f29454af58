"""NVIDIA's driver by ctypes: a context, memory, kernels, streams and events, for what measures a GPU without the library."""
import ctypes
from ctypes import byref, c_uint64, c_void_p
import json

try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    raise SystemExit(f"NVIDIA's driver is not here: {error}") from error

MULTIPROCESSORS = 16  # CU_DEVICE_ATTRIBUTE_*
NON_BLOCKING = 1  # CU_STREAM_*
# Entry points whose first form has other parameters than the one of CUDA 12.
SECOND = {"cuMemAlloc", "cuMemFree", "cuMemHostRegister", "cuMemHostGetDevicePointer", "cuMemcpyHtoD", "cuMemcpyDtoH",
          "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync", "cuMemGetAddressRange", "cuIpcOpenMemHandle",
          "cuStreamDestroy", "cuEventDestroy", "cuEventElapsedTime", "cuStreamBeginCapture", "cuStreamWaitValue32",
          "cuStreamWriteValue32", "cuMemGetInfo"}


class DriverError(Exception):
    """A call that the driver refused."""


def entry(name):
    """The function, None where this driver has none."""
    return (getattr(cuda, f"{name}_v2", None) if name in SECOND else None) or getattr(cuda, name, None)


def call(name, *arguments):
    function = entry(name)
    if function is None:
        raise DriverError(f"{name}: this driver has none")
    result = function(*arguments)
    if result != 0:
        text = ctypes.c_char_p()
        cuda.cuGetErrorName(result, byref(text))
        raise DriverError(f"{name}: {text.value.decode() if text.value else f'error {result}'}")


def size(value):
    return ctypes.c_size_t(value)


def words(*values):
    """A kernel's parameter: a structure of 64-bit words."""
    return (c_uint64 * len(values))(*values)


def line(**fields):
    print(json.dumps(fields), flush=True)


class Gpu:
    """The first GPU: its primary context, current on this thread."""

    def __init__(self):
        self.context = c_void_p()
        call("cuInit", 0)
        call("cuDevicePrimaryCtxRetain", byref(self.context), 0)
        self.use()

    def use(self):
        call("cuCtxSetCurrent", self.context)

    def attribute(self, number):
        value = ctypes.c_int()
        call("cuDeviceGetAttribute", byref(value), number, 0)
        return value.value

    def stream(self):
        made = c_void_p()
        call("cuStreamCreate", byref(made), NON_BLOCKING)
        return made

    def memory(self, byte_count):
        made = c_uint64()
        call("cuMemAlloc", byref(made), size(byte_count))
        return made

    def pinned(self, byte_count):
        """(words that the host sees, their address on the GPU). Never given back."""
        host, device = c_void_p(), c_uint64()
        call("cuMemHostAlloc", byref(host), size(byte_count), 2)  # mapped
        call("cuMemHostGetDevicePointer", byref(device), host, 0)
        return (c_uint64 * (byte_count // 8)).from_address(host.value), device.value

    def kernels(self, file, *names):
        """The kernels of a fatbin, by their names without "tutti_"."""
        module = c_void_p()
        call("cuModuleLoadData", byref(module), open(file, "rb").read())
        found = {}
        for name in names:
            found[name] = c_void_p()
            call("cuModuleGetFunction", byref(found[name]), module, f"tutti_{name}".encode())
        return found

    def launch(self, kernel, blocks, threads, stream, parameter):
        parameters = (c_void_p * 1)(ctypes.cast(byref(parameter), c_void_p))
        call("cuLaunchKernel", kernel, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, None)

    def seconds(self, stream, work, rounds=5, repeats=1, before=None, after=None):
        """The least of several rounds, of one repetition, between two events; what comes before and after is not measured."""
        first, last = c_void_p(), c_void_p()
        call("cuEventCreate", byref(first), 0)
        call("cuEventCreate", byref(last), 0)
        least = float("inf")
        for _ in range(rounds):
            if before:
                before()
            call("cuEventRecord", first, stream)
            for _ in range(repeats):
                work()
            call("cuEventRecord", last, stream)
            if after:
                after()
            call("cuEventSynchronize", last)
            milliseconds = ctypes.c_float()
            call("cuEventElapsedTime", byref(milliseconds), first, last)
            least = min(least, milliseconds.value / 1e3 / repeats)
        return least

    def graph(self, stream, work):
        """An executable graph of what `work()` gives to the stream."""
        graph, executable = c_void_p(), c_void_p()
        call("cuStreamBeginCapture", stream, 2)  # relaxed
        work()
        call("cuStreamEndCapture", stream, byref(graph))
        call("cuGraphInstantiateWithFlags", byref(executable), graph, c_uint64(0))
        return executable
