#!/usr/bin/env python3
"""Each kernel of these cubins has a twin, and each twin a kernel, with as many bytes of parameters and as large blocks.

    twins_test.py CUBIN... TWINS     TWINS is the shared object that FAKE_CUDA_TWINS names; exit status 0 if all agree
"""
import ctypes
import struct
import sys

PARAMETER_BYTES, MAX_THREADS = 0x19, 0x05  # attributes of a kernel
SIZED = 4  # the form of an attribute whose value stands behind it


class Twin(ctypes.Structure):
    """host::Twin of src/exec/cuda/device.hpp."""


Twin._fields_ = [("name", ctypes.c_char_p), ("bytes", ctypes.c_uint32), ("alignment", ctypes.c_uint32),
                 ("run", ctypes.c_void_p), ("max_threads", ctypes.c_uint32), ("min_blocks", ctypes.c_uint32),
                 ("next", ctypes.POINTER(Twin))]


def twins(path: str) -> dict:
    """name -> (bytes of parameters, largest block)"""
    library = ctypes.CDLL(path)
    library.fake_cuda_twins.restype = ctypes.POINTER(Twin)
    entry = library.fake_cuda_twins(None, ctypes.byref(ctypes.c_void_p()))
    found = {}
    while entry:
        found[entry.contents.name.decode()] = (entry.contents.bytes, entry.contents.max_threads)
        entry = entry.contents.next
    return found


def sections(image: bytes):
    """(name, bytes) of each section of a 64-bit ELF file."""
    (table,) = struct.unpack_from("<Q", image, 0x28)
    size, count, names = struct.unpack_from("<HHH", image, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", image, table + i * size) for i in range(count)]
    for name, _, _, _, offset, length in headers:
        start = headers[names][4] + name
        yield image[start:image.index(b"\0", start)].decode(), image[offset:offset + length]


def attributes(info: bytes):
    """(attribute, value) of a kernel's section."""
    at = 0
    while at < len(info):
        form, attribute, value = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == SIZED:
            yield attribute, info[at:at + value]
            at += value
        else:
            yield attribute, value


def kernels(path: str) -> dict:
    found = {}
    with open(path, "rb") as file:
        image = file.read()
    for name, content in sections(image):
        if not name.startswith(".nv.info."):
            continue
        values = dict(attributes(content))
        largest = struct.unpack_from("<I", values[MAX_THREADS])[0] if MAX_THREADS in values else 1024
        found[name[len(".nv.info."):]] = (values.get(PARAMETER_BYTES, 0), largest)
    return found


def main() -> int:
    *cubins, shared_object = sys.argv[1:]
    on_device, on_host = {}, twins(shared_object)
    for cubin in cubins:
        on_device.update(kernels(cubin))
    wrong = []
    for name in sorted(on_device.keys() | on_host.keys()):
        if name not in on_host:
            wrong.append(f"{name}: it has no twin")
        elif name not in on_device:
            wrong.append(f"{name}: there is a twin, but no kernel")
        elif on_device[name] != on_host[name]:
            wrong.append(f"{name}: (bytes of parameters, largest block) are {on_device[name]} on the device, "
                         f"{on_host[name]} on the host")
    print("\n".join(wrong) or f"{len(on_device)} kernels have twins of the same layout")
    if not on_device:
        wrong.append("no kernel was found")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
