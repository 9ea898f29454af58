#!/usr/bin/env python3
"""What a GPU's memory gives: a copy by the driver, and the library's fold of two operands, in bytes read and written a second.

    ceilings.py FOLD_FATBIN MEGABYTES     of each buffer; prints a line of JSON
"""
import ctypes
from ctypes import c_uint64
import sys

from driver import MULTIPROCESSORS, Gpu, call, line, size, words

REPEATS, THREADS = 4, 512


def main():
    file, bytes_of_buffer = sys.argv[1], int(sys.argv[2]) << 20
    gpu = Gpu()
    stream, fold = gpu.stream(), gpu.kernels(file, "fold_f32")["fold_f32"]
    to, left, right = buffers = [gpu.memory(bytes_of_buffer) for _ in range(3)]
    for buffer in buffers:
        call("cuMemsetD32Async", buffer, 0x3f800000, size(bytes_of_buffer // 4), stream)  # ones
    fold_call = words(to.value, left.value, right.value, bytes_of_buffer)
    copied = gpu.seconds(stream, lambda: call("cuMemcpyDtoDAsync", to, left, size(bytes_of_buffer), stream), repeats=REPEATS)

    def folded_by(blocks):
        return gpu.seconds(stream, lambda: gpu.launch(fold, blocks, THREADS, stream, fold_call), repeats=REPEATS)

    folded = folded_by(2 * gpu.attribute(MULTIPROCESSORS))
    fold_call[3] = part = min(bytes_of_buffer, 16 << 20)
    by_a_block = folded_by(1)
    ends = (ctypes.c_float * 2)()
    for i, at in enumerate((0, bytes_of_buffer - 4)):
        call("cuMemcpyDtoHAsync", ctypes.byref(ends, 4 * i), c_uint64(to.value + at), size(4), stream)
    call("cuStreamSynchronize", stream)
    if list(ends) != [2.0, 2.0]:
        sys.exit(f"the fold is wrong: {list(ends)} where 2.0 is due")
    line(bytes=bytes_of_buffer, copy_bytes_per_second=2 * bytes_of_buffer / copied,
         fold_bytes_per_second=3 * bytes_of_buffer / folded,
         # Beyond copying one operand, for a byte folded; and by one block, for a byte loaded.
         fold_seconds_per_byte=max(0.0, folded - copied) / bytes_of_buffer, block_seconds_per_byte=by_a_block / (2 * part))


if __name__ == "__main__":
    main()
