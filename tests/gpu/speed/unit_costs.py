#!/usr/bin/env python3
"""What single operations of this GPU and its driver cost, each in a loop of its own.

    unit_costs.py UNITS_FATBIN PROBES_FATBIN [SMALL]     SMALL: less memory and fewer rounds

Prints a line of JSON a figure: what, seconds, and the constant of the cost model (src/topo/constants.def) that stands for it,
if one does; or why it was not measured.
"""
import ctypes
from ctypes import byref, c_uint64, c_void_p
import sys
import time

from driver import DriverError, Gpu, call, line, size, words
from driver_calls import MIB, PROPERTIES, Access, Location

KERNELS = ("link", "clock", "fence_sys", "fence_gpu", "stores", "stores_fence_sys", "stores_fence_gpu", "barrier", "load",
           "acquire_sys", "acquire_gpu", "store", "release_sys", "red_sys", "exchange_gpu", "fetch_add_sys", "multicast_load",
           "multicast_store", "flags")
THREADS, NODE = 512, 128  # of a block; bytes of a node in the L2 cache
IN_A_ROW = 50  # kernels of a graph, items of a stream: a queue has room for them
TRIES = 3


class MulticastProperties(ctypes.Structure):
    """CUmulticastObjectProp"""
    _fields_ = [("devices", ctypes.c_uint), ("bytes", ctypes.c_size_t), ("handles", c_uint64), ("flags", c_uint64)]


class Units:
    def __init__(self, units, probes, small):
        self.gpu, self.small = Gpu(), small
        self.stream = self.gpu.stream()
        self.kernels = self.gpu.kernels(units, *(f"unit_{name}" for name in KERNELS))
        probes = self.gpu.kernels(probes, "nothing", "spin")
        self.nothing, self.spin, self.spins = probes["nothing"], probes["spin"], 0
        self.out, self.out_at = self.gpu.pinned(4096)
        self.host, self.host_at = self.gpu.pinned(MIB)
        self.far = MIB if small else 256 * MIB
        self.memory, self.other = self.gpu.memory(self.far), self.gpu.memory(self.far)
        call("cuMemsetD32Async", self.memory, 0, size(self.far // 4), self.stream)
        self.rounds, self.seen = 16 if small else 2048, {}

        self.warm_up()

    def warm_up(self):
        """Idle GPUs have low clocks."""
        until = time.monotonic() + (0 if self.small else 0.3)
        while time.monotonic() < until:
            self.run("barrier", threads=THREADS)

    def run(self, name, at=None, apart=0, nodes=0, rounds=None, threads=1, tries=TRIES):
        """Seconds of a round, the least of some tries."""
        rounds, at = rounds or self.rounds, at or self.memory.value
        least = float("inf")
        for _ in range(tries):
            self.out[0] = 0
            call_of = words(self.out_at, at, apart, nodes | rounds << 32)
            self.gpu.launch(self.kernels[f"unit_{name}"], 1, threads, self.stream, call_of)
            call("cuStreamSynchronize", self.stream)
            least = min(least, self.out[0] * 1e-9 / rounds)
        return least

    def chain(self, load, at, apart, nodes, rounds):
        self.run("link", at, apart, nodes, threads=THREADS)
        return self.run(load, at, apart, nodes, rounds)

    def far_load(self):
        """Each node is loaded once, after what was written has left the L2 cache."""
        nodes = 128 if self.small else 8192
        apart = self.far // nodes
        self.run("link", self.memory.value, apart, nodes, threads=THREADS)
        call("cuMemsetD32Async", self.other, 0, size(self.far // 4), self.stream)
        return self.run("load", self.memory.value, apart, nodes, nodes // 2, tries=1)

    def tell(self, what, seconds, model=None):
        self.seen[what] = seconds
        line(what=what, seconds=seconds, model=model)

    # ---- of a kernel

    def accesses(self):
        near = self.memory.value, NODE, 1024
        rounds = self.rounds
        self.tell("step of %globaltimer", self.run("clock", rounds=rounds) * rounds)
        self.tell("load from the L2 cache", self.chain("load", *near, rounds))
        self.tell("load from the GPU's memory", self.far_load())
        self.tell("load of pinned memory of the host", self.chain("load", self.host_at, NODE, 1024, min(rounds, 512)))
        self.tell("ld.acquire.sys, from the L2 cache", self.chain("acquire_sys", *near, rounds))
        self.tell("ld.acquire.gpu, from the L2 cache", self.chain("acquire_gpu", *near, rounds))
        self.tell("CCTL.IVALL: ld.acquire.sys beyond ld.relaxed.sys",
                  max(0.0, self.seen["ld.acquire.sys, from the L2 cache"] - self.seen["load from the L2 cache"]))
        self.tell("st.relaxed.sys, one after the other", self.run("store"))
        self.tell("st.release.sys, one after the other", self.run("release_sys"))
        self.tell("red.relaxed.sys, one after the other", self.run("red_sys"))
        self.tell("atom.relaxed.gpu.exch", self.run("exchange_gpu"))
        self.tell("atom.acq_rel.sys.add", self.run("fetch_add_sys"))

    def fences(self):
        self.tell("fence.acq_rel.gpu, idle", self.run("fence_gpu"))
        self.tell("fence.acq_rel.sys, idle", self.run("fence_sys"))
        self.tell("barrier of 512 threads", self.run("barrier", threads=THREADS))
        rounds = self.rounds // 4
        bare = self.run("stores", rounds=rounds, threads=THREADS)
        self.tell("32 KiB stored by a block, and a barrier", bare)
        for scope in ("gpu", "sys"):
            fenced = self.run(f"stores_fence_{scope}", rounds=rounds, threads=THREADS)
            self.tell(f"fence.acq_rel.{scope} behind 32 KiB that a block has stored", max(0.0, fenced - bare),
                      "cuda_fence" if scope == "sys" else None)

    def flags(self):
        call("cuMemsetD32Async", self.memory, 0, size(1024), self.stream)
        rounds = self.rounds
        self.out[0] = 0
        call_of = words(self.out_at, self.memory.value, 0, rounds << 32)
        self.gpu.launch(self.kernels["unit_flags"], 2, 1, self.stream, call_of)
        call("cuStreamSynchronize", self.stream)
        if self.out[0] == 0:
            return line(what="a flag from block to block", why_not="the two blocks did not run at the same time")
        return self.tell("a flag from block to block of this GPU, one way", self.out[0] * 1e-9 / rounds / 2, "cuda_alpha")

    # ---- of the driver

    def launch(self):
        self.gpu.launch(self.nothing, 1, 32, self.stream, words(self.memory.value, 0))

    def queued(self, work):
        """Seconds of one of many, none of which begins before the host has enqueued all."""
        def hold():
            self.spins += 1
            at, limit = self.host_at + MIB // 2, 1000000000
            self.gpu.launch(self.spin, 1, 32, self.stream, words(at, at + 1024, self.spins, limit))

        def release():
            self.host[MIB // 16] = self.spins

        return self.gpu.seconds(self.stream, work, repeats=IN_A_ROW, before=hold, after=release)

    def launches(self):
        graph = self.gpu.graph(self.stream, lambda: [self.launch() for _ in range(IN_A_ROW)])
        in_graph = self.gpu.seconds(self.stream, lambda: call("cuGraphLaunch", graph, self.stream), repeats=4) / IN_A_ROW
        self.tell("kernel to kernel in a graph", in_graph)
        self.tell("kernel to kernel in a graph, and the load of a word of the host", in_graph +
                  self.seen["load of pinned memory of the host"], "cuda_call")
        self.tell("kernel to kernel in a stream", self.queued(self.launch))
        for what, then in (("cuLaunchKernel, on the host", None), ("a launch, and its end seen by the host", "cuStreamSynchronize")):
            call("cuStreamSynchronize", self.stream)
            begin = time.perf_counter()
            for _ in range(IN_A_ROW):
                self.launch()
                if then:
                    call(then, self.stream)
            self.tell(what + " (called from Python)", (time.perf_counter() - begin) / IN_A_ROW)

    def items(self):
        at = self.memory
        pair = ("cuStreamWriteValue32", "cuStreamWaitValue32")  # the wait is over when it begins
        seconds = self.queued(lambda: [call(name, self.stream, at, 1, 0) for name in pair])
        self.tell("a word that a stream writes or waits for", seconds / 2, "cuda_copy_item")
        there = c_uint64(at.value + 4096)
        self.tell("a copy of 8 B by cuMemcpyDtoDAsync",
                  self.queued(lambda: call("cuMemcpyDtoDAsync", there, at, size(8), self.stream)), "cuda_copy_item")

    def multicast(self):
        """Whether the driver makes an object of one GPU; and if so, what its switch takes to answer."""
        properties, granule = MulticastProperties(1, 2 * MIB, 1, 0), ctypes.c_size_t()
        call("cuMulticastGetGranularity", byref(granule), byref(properties), 0)
        bytes_of_it = size(max(granule.value, 2 * MIB))
        properties.bytes = bytes_of_it
        team, memory, at = c_uint64(), c_uint64(), c_uint64()
        call("cuMulticastCreate", byref(team), byref(properties))
        call("cuMulticastAddDevice", team, 0)
        call("cuMemCreate", byref(memory), bytes_of_it, byref(PROPERTIES), c_uint64(0))
        call("cuMulticastBindMem", team, size(0), memory, size(0), bytes_of_it, c_uint64(0))
        call("cuMemAddressReserve", byref(at), bytes_of_it, bytes_of_it, c_uint64(0), c_uint64(0))
        call("cuMemMap", at, bytes_of_it, size(0), team, c_uint64(0))
        call("cuMemSetAccess", at, bytes_of_it, byref(Access(Location(1, 0), 3)), size(1))
        self.tell("multimem.st of 16 B, one after the other, one GPU", self.run("multicast_store", at.value))
        self.tell("multimem.ld_reduce of 16 B, one GPU", self.run("multicast_load", at.value))
        if self.out[1] != 0x40000000:
            raise DriverError(f"multimem.ld_reduce: {self.out[1]:#x} where 2.0 was stored")


def main():
    units = Units(sys.argv[1], sys.argv[2], sys.argv[3:] == ["SMALL"])
    failed = False
    for part in (units.accesses, units.fences, units.flags, units.launches, units.items):
        try:
            part()
        except (DriverError, KeyError) as error:
            failed = True
            line(what=part.__name__, why_not=str(error))
    try:
        units.multicast()
    except DriverError as refused:
        line(what="a multicast object of one GPU", why_not=str(refused))
    for what, model in (("a byte between GPUs", "cuda_beta"), ("a byte that a block loads from another GPU", "cuda_block_peer")):
        line(what=what, model=model, why_not="it takes two GPUs")
    for what, model in (("a message beyond the first of a round", "cuda_message"), ("a round of LL128 beyond one of LL", "cuda_ll128_round"),
                        ("a message's way through the proxy", "cuda_proxy")):
        line(what=what, model=model, why_not="no kernel here does that alone")
    sys.exit(failed)


if __name__ == "__main__":
    main()
