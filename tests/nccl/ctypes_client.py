#!/usr/bin/env python3
"""libnccl.so.2 as vLLM and SGLang use it: ctypes, with the types of each function's arguments, and no header.

    ctypes_client.py LIBRARY        two processes make a communicator and call every function of vLLM's list
"""
import ctypes
import os
import sys

Comm = Window = Stream = Buffer = ctypes.c_void_p
Int, Size, Pointer = ctypes.c_int, ctypes.c_size_t, ctypes.POINTER
FLOAT, SUM, MAX = 7, 0, 2
COUNT = 64


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


# What vLLM's pynccl_wrapper.py lists (each with the type of its result, if that is not a code), and the arguments.
FUNCTIONS: dict[str, list] = {
    "ncclGetErrorString": [Int],
    "ncclGetVersion": [Pointer(Int)],
    "ncclGetUniqueId": [Pointer(UniqueId)],
    "ncclCommInitRank": [Pointer(Comm), Int, UniqueId, Int],
    "ncclAllReduce": [Buffer, Buffer, Size, Int, Int, Comm, Stream],
    "ncclReduce": [Buffer, Buffer, Size, Int, Int, Int, Comm, Stream],
    "ncclAllGather": [Buffer, Buffer, Size, Int, Comm, Stream],
    "ncclReduceScatter": [Buffer, Buffer, Size, Int, Int, Comm, Stream],
    "ncclSend": [Buffer, Size, Int, Int, Comm, Stream],
    "ncclRecv": [Buffer, Size, Int, Int, Comm, Stream],
    "ncclBroadcast": [Buffer, Buffer, Size, Int, Int, Comm, Stream],
    "ncclCommDestroy": [Comm],
    "ncclGroupStart": [],
    "ncclGroupEnd": [],
    "ncclCommWindowRegister": [Comm, Buffer, Size, Pointer(Window), Int],
    "ncclCommWindowDeregister": [Comm, Window],
}


def functions(path: str) -> dict:
    library = ctypes.CDLL(path)
    found = {}
    for name, arguments in FUNCTIONS.items():
        found[name] = getattr(library, name)
        found[name].restype = ctypes.c_char_p if name == "ncclGetErrorString" else Int
        found[name].argtypes = arguments
    return found


def run(path: str, rank: int, read: int, write: int) -> None:
    nccl = functions(path)

    def call(name: str, *arguments) -> None:
        code = nccl[name](*arguments)
        if code != 0:
            raise RuntimeError(f"{name}: {nccl['ncclGetErrorString'](code).decode()}")

    version, identity, comm, window = Int(), UniqueId(), Comm(), Window(1)
    call("ncclGetVersion", ctypes.byref(version))
    assert version.value == 23007, version
    if rank == 0:
        call("ncclGetUniqueId", ctypes.byref(identity))
        os.write(write, bytes(identity))
    else:
        identity = UniqueId.from_buffer_copy(os.read(read, 128))
    call("ncclCommInitRank", ctypes.byref(comm), 2, identity, rank)
    mine = (ctypes.c_float * COUNT)(*[rank + 1.0] * COUNT)
    out = (ctypes.c_float * (2 * COUNT))()

    def expect(*values: float) -> None:
        got = [out[i * COUNT] for i in range(len(values))]
        assert got == list(values), (rank, got, values)

    call("ncclAllReduce", mine, out, COUNT, FLOAT, SUM, comm, None)
    expect(3)
    call("ncclReduce", mine, out, COUNT, FLOAT, MAX, 0, comm, None)
    expect(2 if rank == 0 else 3)
    call("ncclAllGather", mine, out, COUNT, FLOAT, comm, None)
    expect(1, 2)
    call("ncclReduceScatter", out, mine, COUNT, FLOAT, SUM, comm, None)
    assert mine[0] == 2 * (rank + 1), mine[0]
    call("ncclBroadcast", mine, out, COUNT, FLOAT, 1, comm, None)
    expect(4)
    call("ncclGroupStart")
    call("ncclSend", mine, COUNT, FLOAT, 1 - rank, comm, None)
    call("ncclRecv", out, COUNT, FLOAT, 1 - rank, comm, None)
    call("ncclGroupEnd")
    expect(4 if rank == 0 else 2)
    call("ncclCommWindowRegister", comm, mine, ctypes.sizeof(mine), ctypes.byref(window), 1)
    assert window.value is not None
    call("ncclCommWindowDeregister", comm, window)
    call("ncclCommDestroy", comm)


if __name__ == "__main__":
    ends = os.pipe()
    child = os.fork()
    run(sys.argv[1], 0 if child else 1, *ends)
    if child:
        status = os.waitpid(child, 0)[1]
        print(f"{len(FUNCTIONS)} functions of vLLM's list by ctypes, two processes: {'right' if status == 0 else 'wrong'}")
        sys.exit(status != 0)
