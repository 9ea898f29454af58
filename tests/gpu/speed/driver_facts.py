#!/usr/bin/env python3
"""What this machine's driver does while a kernel runs, beside what is assumed of it.

    driver_facts.py PROBES_FATBIN          each call beside a kernel that spins: does it return before that ends?
    driver_facts.py PROBES_FATBIN queues   how much fits a queue, and which streams share one; CUDA_DEVICE_MAX_CONNECTIONS

Prints a line of JSON a fact: what, found, assumed, when the library does so, ms. The kernel ends when the host says so, and
by itself after some seconds, so nothing here waits for ever. Exit status 1: a call that the library relies on waits, or
a check of the checks failed.
"""
import ctypes
from ctypes import byref, c_uint64, c_void_p
import os
import queue
import subprocess
import sys
import threading
import time

import driver_calls
from driver import DriverError, Gpu, call, line, words
from driver_calls import IN_A_CALL, MIB, RETURNS, WAITS

LIMIT = 5.0  # seconds after which the kernel ends by itself
HOLDS = (0.02, 0.3, 1.0)  # seconds that a call has to return; the longer ones where it seems not to do as is assumed
HANGS = 10.0  # seconds after the kernel's end
DEPTH = 4096  # launches, at most
QUEUE, CALLS_AHEAD, ITEMS = 1024, 256, 3  # of the stand-in; exec/gpu/call_count.hpp: calls ahead, of so many items


class Worker:
    """A thread that makes calls, so that another one sees whether they return."""

    def __init__(self, gpu):
        self.work, self.done = queue.SimpleQueue(), queue.SimpleQueue()
        threading.Thread(target=self.run, args=(gpu,), daemon=True).start()

    def run(self, gpu):
        gpu.use()
        while True:
            work = self.work.get()
            begin, error = time.perf_counter(), None
            try:
                work()
            except DriverError as refused:
                error = refused
            self.done.put((time.perf_counter() - begin, error))

    def result(self, seconds):
        """(seconds that the call took, why it was refused); None if it has not returned within so long."""
        try:
            return self.done.get(timeout=seconds)
        except queue.Empty:
            return None


class Kit:
    """What the rows use."""

    def __init__(self, file):
        self.file, self.image = file, open(file, "rb").read()
        self.gpu = Gpu()
        self.busy, self.stream = self.gpu.stream(), self.gpu.stream()  # the one with the kernel, and another
        kernels = self.gpu.kernels(file, "spin", "nothing")
        self.spin, self.nothing = kernels["spin"], kernels["nothing"]
        self.flags, self.flags_at = self.gpu.pinned(4096)
        self.memory = self.gpu.memory(2 * MIB)
        pinned = c_void_p()
        call("cuMemHostAlloc", byref(pinned), ctypes.c_size_t(MIB), 2)
        self.pinned, self.pageable = pinned, (ctypes.c_ubyte * MIB)()
        self.spins, self.other = 0, None
        self.launch(self.nothing)
        self.begin_spin()
        self.end_spin()
        self.worker = Worker(self.gpu)

    def launch(self, kernel, stream=None):
        self.gpu.launch(kernel, 1, 32, stream or self.stream, words(self.memory.value, 0))

    def begin_spin(self):
        """Returns when the kernel runs."""
        self.spins += 1
        limit = int(LIMIT * 1e9)
        self.gpu.launch(self.spin, 1, 32, self.busy, words(self.flags_at, self.flags_at + 1024, self.spins, limit))
        until = time.monotonic() + HANGS
        while self.flags[128] < self.spins:
            if time.monotonic() > until:
                sys.exit("a kernel that the host launched did not begin")
            time.sleep(0)

    def release(self):
        self.flags[0] = self.spins

    def end_spin(self):
        self.release()
        call("cuStreamSynchronize", self.busy)

    def others_memory(self):
        """The handle of memory that another process has."""
        if self.other is None:
            self.other = subprocess.Popen([sys.executable, "-B", __file__, self.file, "owner"], stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE, text=True)
        else:
            self.other.stdin.write("again\n")
            self.other.stdin.flush()
        handle = bytes.fromhex(self.other.stdout.readline())
        if not handle:
            raise DriverError("another process got no memory of this GPU")
        return handle


def own_memory():
    """The other process: prints handles of its memory, until nobody asks any more."""
    gpu, handle = Gpu(), (ctypes.c_ubyte * 64)()
    call("cuIpcGetMemHandle", byref(handle), gpu.memory(2 * MIB))
    print(bytes(handle).hex(), flush=True)
    for _ in sys.stdin:
        print(bytes(handle).hex(), flush=True)


def beside(kit, make, hold):
    """(whether it returned while the kernel ran, seconds)"""
    steps = make(kit)
    work = next(steps)
    kit.begin_spin()
    kit.worker.work.put(work)
    result = kit.worker.result(hold)
    returned = result is not None
    kit.release()
    result = result or kit.worker.result(HANGS)
    if result is None:
        return None
    kit.end_spin()
    if result[1]:
        raise result[1]
    next(steps, None)
    call("cuCtxSynchronize")
    return returned, result[0]


def alone(kit, make):
    steps = make(kit)
    work = next(steps)
    begin = time.perf_counter()
    work()
    took = time.perf_counter() - begin
    next(steps, None)
    call("cuCtxSynchronize")
    return took


def fact(what, found, assumed, when, differs, danger, **more):
    """Prints it. `danger`: the library would fail by it, if it differs; returns whether that is so."""
    danger = differs and danger
    verdict = "DIFFERS: the library relies on it" if danger else "DIFFERS" if differs else "as assumed"
    line(what=what, found=found, assumed=assumed, when=when, verdict=verdict, **more)
    return danger


def measure_row(kit, name, assumed, when, make):
    """True if the library would fail by it, or the check is wrong."""
    try:
        first = alone(kit, make)
        for hold in HOLDS:
            seen = beside(kit, make, min(max(hold, 20 * first), LIMIT / 2))
            if seen is None or seen[0] or assumed == WAITS:
                break
        if seen is None:
            line(what=name, found="had not returned 10 s after the kernel's end", assumed=assumed, when=when, verdict="DIFFERS")
            os._exit(1)  # what that thread holds, all others may need
    except DriverError as refused:
        line(what=name, found=f"refused: {refused}", assumed=assumed, when=when, verdict="not measured")
        return False
    found = RETURNS if seen[0] else WAITS
    wrong = "kernel's stream" in name and found == RETURNS  # then no kernel ran
    return fact(name, found, assumed, when, found != assumed, when == IN_A_CALL, ms=1e3 * seen[1], alone_ms=1e3 * first) or wrong


# ---- queues


def depth(kit, work, patience):
    """How often work() returns beside a kernel, before it waits."""
    count = [0]

    def fill():
        while count[0] < DEPTH:
            work()
            count[0] += 1

    kit.begin_spin()
    kit.worker.work.put(fill)
    seen, result = -1, None
    while result is None and seen != count[0]:
        seen, result = count[0], kit.worker.result(patience)
    full = count[0]
    kit.release()
    result = result or kit.worker.result(HANGS)
    if result is None or result[1]:
        sys.exit(f"launches beside a running kernel: {result[1] if result else 'one has not returned 10 s after its end'}")
    kit.end_spin()
    return full


def held_up(kit, streams, patience):
    """Of these streams, in the order of their creation, those whose kernel does not run: beside a kernel of the first, with
    another one behind it."""
    kit.busy = streams[0]
    kit.begin_spin()
    kit.launch(kit.nothing, kit.busy)
    waiting = dict(enumerate(streams[1:], 1))
    for stream in waiting.values():
        kit.launch(kit.nothing, stream)
    until = time.monotonic() + patience
    while waiting and time.monotonic() < until:
        waiting = {i: stream for i, stream in waiting.items() if busy(stream)}
    kit.end_spin()
    call("cuCtxSynchronize")
    return sorted(waiting)


def busy(stream):
    try:
        call("cuStreamQuery", stream)
    except DriverError:
        return True
    return False


def queues(kit):
    connections = int(os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS", "8"))
    found = held_up(kit, [kit.gpu.stream() for _ in range(40)], 0.3)
    first = found[0] if found else 0
    fact(f"streams from one to the next that shares its queue, with {connections} queues", first, connections,
         "threads that share a GPU wait for each other", first != connections, False, held_up=found)
    kit.busy = kit.gpu.stream()
    fits, needed = depth(kit, lambda: kit.launch(kit.nothing, kit.busy), 0.3), CALLS_AHEAD * ITEMS
    failed = fact("launches that fit a queue behind a running kernel", fits, QUEUE - 1, f"in calls: it must hold {needed}",
                  fits != QUEUE - 1, fits < needed, at_most=DEPTH)
    graph = kit.gpu.graph(kit.stream, lambda: kit.launch(kit.nothing))
    replays = depth(kit, lambda: call("cuGraphLaunch", graph, kit.busy), 0.3)
    fact("launches of a graph that fit it", replays, QUEUE - 1, "programs do, not counted by the library",
         replays != QUEUE - 1, False, at_most=DEPTH)
    return failed


def main():
    kit = Kit(sys.argv[1])
    if sys.argv[2:] == ["queues"]:
        sys.exit(queues(kit))
    failed = False
    for row in driver_calls.ROWS:
        failed |= measure_row(kit, *row)
    if kit.other is not None:
        kit.other.stdin.close()
        kit.other.wait()
    sys.exit(failed)


if __name__ == "__main__":
    if sys.argv[2:] == ["owner"]:
        own_memory()
    else:
        main()
