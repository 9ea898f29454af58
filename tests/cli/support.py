"""Common code of the command line's tests. The binaries are the first arguments of each test script."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import unittest

TUTTI = sys.argv[1] if len(sys.argv) > 1 else ""
LIAR = sys.argv[2] if len(sys.argv) > 2 else ""  # a tutti whose all-reduce is wrong as the variable LIAR says
LIMIT = 60  # seconds until a hanging test fails
# Prints its process id and waits to be ended.
WAIT_FOREVER = "echo $$; exec sleep 1000"


def tutti(*arguments, stdin="", env=None, binary=None, **options):
    """Runs a command to its end: returncode, stdout and stderr as text. `options`: subprocess.run's."""
    return subprocess.run([binary or TUTTI, *arguments], input=stdin, capture_output=True, text=True, timeout=LIMIT,
                          env={**os.environ, **(env or {})}, **options)


def start(*arguments, **options):
    """Starts a command, with pipes to all three streams unless `options` say otherwise."""
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    return subprocess.Popen([TUTTI, *arguments], **options)


def alive(pid):
    """True for a process that runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(pid):
    """Waits for the end of any process, child or not; False after LIMIT seconds."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], LIMIT)[0])
    finally:
        os.close(fd)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as list:
        return [int(child) for child in list.read().split()]


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm") as name:
            return name.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


class Terminal:
    """A command with a terminal of its own for all three streams, as in interactive use."""

    def __init__(self, *arguments, env=None):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(TUTTI, [TUTTI, *arguments], {**os.environ, **(env or {})})
        self.text = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def read_until(self, words):
        """The output up to `words`; fails if the output ends first."""
        while words not in self.text:
            if not select.select([self.fd], [], [], LIMIT)[0]:
                raise AssertionError(f"{words!r} did not come: {self.text!r}")
            try:
                block = os.read(self.fd, 65536)
            except OSError:  # a terminal's error once its last user has closed it
                block = b""
            if not block:
                raise AssertionError(f"{words!r} did not come: {self.text!r}")
            self.text += block.decode()
        seen, self.text = self.text.split(words, 1)
        return seen + words

    def end(self):
        """Waits for the command's end: the rest of its output, and its exit status."""
        rest = self.text
        try:
            while block := os.read(self.fd, 65536):
                rest += block.decode()
        except OSError:
            pass
        os.close(self.fd)
        return rest, os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def main():
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
