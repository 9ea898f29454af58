#!/usr/bin/env python3
"""What a GPU's memory gives: a copy by the driver, and the library's fold of two operands, in bytes read and written a second.

    ceilings.py FOLD_FATBIN MEGABYTES     of each buffer; prints a line of JSON
"""
import ctypes
import json
import sys

MULTIPROCESSORS, ROUNDS, REPEATS, THREADS = 16, 5, 4, 512
cuda = ctypes.CDLL("libcuda.so.1")
ELAPSED = "cuEventElapsedTime_v2" if hasattr(cuda, "cuEventElapsedTime_v2") else "cuEventElapsedTime"  # by the driver's age


class FoldCall(ctypes.Structure):
    """As in fold.cu."""
    _fields_ = [("to", ctypes.c_uint64), ("left", ctypes.c_uint64), ("right", ctypes.c_uint64), ("bytes", ctypes.c_uint64)]


def check(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result != 0:
        sys.exit(f"{name}: error {result} of CUDA")


def seconds(stream, work):
    """The least of several rounds, of one repetition."""
    first, last = ctypes.c_void_p(), ctypes.c_void_p()
    check("cuEventCreate", ctypes.byref(first), 0)
    check("cuEventCreate", ctypes.byref(last), 0)
    least = float("inf")
    for _ in range(ROUNDS):
        check("cuEventRecord", first, stream)
        for _ in range(REPEATS):
            work()
        check("cuEventRecord", last, stream)
        check("cuEventSynchronize", last)
        milliseconds = ctypes.c_float()
        check(ELAPSED, ctypes.byref(milliseconds), first, last)
        least = min(least, milliseconds.value / 1e3 / REPEATS)
    return least


def main():
    image, size = open(sys.argv[1], "rb").read(), int(sys.argv[2]) << 20
    context, stream, module, function = (ctypes.c_void_p() for _ in range(4))
    multiprocessors = ctypes.c_int()
    check("cuInit", 0)
    check("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    check("cuCtxSetCurrent", context)
    check("cuDeviceGetAttribute", ctypes.byref(multiprocessors), MULTIPROCESSORS, 0)
    check("cuStreamCreate", ctypes.byref(stream), 1)
    check("cuModuleLoadData", ctypes.byref(module), image)
    check("cuModuleGetFunction", ctypes.byref(function), module, b"tutti_fold_f32")
    buffers = [ctypes.c_uint64() for _ in range(3)]
    for buffer in buffers:
        check("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(size))
        check("cuMemsetD32Async", buffer, 0x3f800000, ctypes.c_size_t(size // 4), stream)  # ones
    to, left, right = buffers
    call = FoldCall(to.value, left.value, right.value, size)
    parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(call), ctypes.c_void_p))
    blocks = 2 * multiprocessors.value
    copied = seconds(stream, lambda: check("cuMemcpyDtoDAsync_v2", to, left, ctypes.c_size_t(size), stream))
    folded = seconds(stream, lambda: check("cuLaunchKernel", function, blocks, 1, 1, THREADS, 1, 1, 0, stream, parameters, None))
    ends = (ctypes.c_float * 2)()
    for i, at in enumerate((0, size - 4)):
        check("cuMemcpyDtoHAsync_v2", ctypes.byref(ends, 4 * i), ctypes.c_uint64(to.value + at), ctypes.c_size_t(4), stream)
    check("cuStreamSynchronize", stream)
    if list(ends) != [2.0, 2.0]:
        sys.exit(f"the fold is wrong: {list(ends)} where 2.0 is due")
    print(json.dumps({"bytes": size, "copy_bytes_per_second": 2 * size / copied, "fold_bytes_per_second": 3 * size / folded}))


if __name__ == "__main__":
    main()
