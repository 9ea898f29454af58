"""System calls that a sandbox forbids: a job does without, or each rank ends with an error of the operating system.

    forbidden_test.py TUTTI WINDOWS [unittest's arguments]

Two ranks all-reduce while one system call is refused in both, as a seccomp filter of a container does. No hang, no crash,
no wrong result, and never the text that a defect of Tutti has. WINDOWS, tests of one-sided calls, needs neither of the calls
that access another process's memory.
"""

import ctypes
import os
import platform
import re
import signal
import struct
import subprocess
import sys
import unittest

TUTTI, WINDOWS = (os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "" for _ in range(2))
LIMIT = 60  # seconds until a hanging rank fails
# Of x86-64. Not those without which no program starts: they are the loader's and libc's.
CALLS = {"poll": 7, "madvise": 28, "sched_yield": 24, "socket": 41, "connect": 42, "sendto": 44, "recvfrom": 45,
         "sendmsg": 46, "recvmsg": 47, "bind": 49, "listen": 50, "getsockname": 51, "setsockopt": 54, "getsockopt": 55,
         "clone": 56, "uname": 63, "fcntl": 72, "ftruncate": 77, "readlink": 89, "prctl": 157, "sched_setaffinity": 203,
         "sched_getaffinity": 204, "getdents64": 217, "epoll_wait": 232, "epoll_ctl": 233,
         "fallocate": 285, "accept4": 288, "eventfd2": 290, "epoll_create1": 291, "pipe2": 293, "prlimit64": 302,
         "process_vm_readv": 310, "process_vm_writev": 311, "getrandom": 318, "memfd_create": 319, "pidfd_open": 434,
         "clone3": 435}
EPERM, ENOSYS = 1, 38
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
BPF_LOAD, BPF_EQUAL, BPF_RETURN = 0x20, 0x15, 0x06  # of a word, a constant, a constant
RET_ALLOW, RET_ERRNO = 0x7FFF0000, 0x00050000
LIBC = ctypes.CDLL(None, use_errno=True)


class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_char_p)]


def forbid(number, errno):
    """For the child between fork and exec: the system call of that number fails with errno."""
    program = b"".join(struct.pack("HBBI", *step) for step in (
        (BPF_LOAD, 0, 0, 0), (BPF_EQUAL, 0, 1, number), (BPF_RETURN, 0, 0, RET_ERRNO | errno),
        (BPF_RETURN, 0, 0, RET_ALLOW)))
    if LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        os._exit(99)
    if LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(Filter(len(program) // 8, program)), 0, 0) != 0:
        os._exit(99)


def run_job(command, transport, number, errno, **more):
    """The ranks' exit statuses and outputs. `more`: variables."""
    ranks = []
    for rank in range(2):
        variables = {"TUTTI_RANK": rank, "TUTTI_SIZE": 2, "TUTTI_LOCAL_RANK": rank, "TUTTI_LOCAL_SIZE": 2,
                     "TUTTI_JOB": f"forbidden{os.getpid()}", "TUTTI_TRANSPORT": transport, "TUTTI_TIMEOUT": 10,
                     "TUTTI_INIT_TIMEOUT": 3, **more}
        ranks.append(subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=lambda: forbid(number, errno),
            env={**os.environ, **{name: str(value) for name, value in variables.items()}}))
    ends = []
    for process in ranks:
        try:
            output, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            output = process.communicate()[0] + "(it hung)"
        ends.append((process.returncode, output))
    return ends


@unittest.skipUnless(platform.machine() == "x86_64", "the numbers of the system calls are x86-64's")
class ForbiddenCall(unittest.TestCase):
    def check(self, transport, name, errno):
        command = [TUTTI, "perf", "all_reduce", "-b", "8", "-e", "4M", "-f", "512", "-n", "2", "-w", "1"]
        for rank, (status, output) in enumerate(run_job(command, transport, CALLS[name], errno)):
            with self.subTest(transport=transport, call=name, errno=errno, rank=rank):
                if status == 99:
                    self.skipTest("seccomp filters are not permitted here")
                self.assertNotIn("(it hung)", output)
                self.assertGreaterEqual(status, 0, f"ended by {signal.Signals(max(1, -status)).name}:\n{output}")
                for words in "defect", "internal error", "terminate called", "Assertion":
                    self.assertNotIn(words, output)
                if status != 0:
                    self.assertRegex(output, "tutti perf: ")


@unittest.skipUnless(platform.machine() == "x86_64", "the numbers of the system calls are x86-64's")
class ForbiddenToWindows(unittest.TestCase):
    """Windows on ordinary memory: by CMA (process_vm_readv, process_vm_writev), or by requests if one is refused."""

    NONE = 0xFFFF  # the number of no system call
    TESTS = "Windows.WhatASignalAnnouncesIsThere:Windows.GetsWhatWasPutByAnother:Windows.AtomicStepsOfAllRanksAddUp"

    def check(self, number, errno, way):
        command = [WINDOWS, f"--gtest_filter={self.TESTS}"]
        for rank, (status, output) in enumerate(run_job(command, "shm", number, errno, TUTTI_LOG="info")):
            with self.subTest(number=number, errno=errno, rank=rank):
                if status == 99:
                    self.skipTest("seccomp filters are not permitted here")
                self.assertEqual(status, 0, output)
                self.assertRegex(output, f"rank {rank}: window of call [0-9]+: {way}")

    def test_none(self):
        self.check(self.NONE, EPERM, "(CMA to|.*requests to . .its process's memory cannot be (read|written) by CMA:)")

    def test_process_vm(self):
        for name, done in ("process_vm_readv", "read"), ("process_vm_writev", "written"):
            for errno in EPERM, ENOSYS:
                self.check(CALLS[name], errno, f".*requests to . .its process's memory cannot be {done} by CMA: "
                           f"{re.escape(os.strerror(errno))}")


for one_transport in "shm", "tcp":
    for one_call in CALLS:
        for code in EPERM, ENOSYS:
            def test(self, transport=one_transport, call=one_call, errno=code):
                self.check(transport, call, errno)
            setattr(ForbiddenCall, f"test_{one_transport}_{one_call}_{'EPERM' if code == EPERM else 'ENOSYS'}", test)


if __name__ == "__main__":
    unittest.main()
