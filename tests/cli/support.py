"""What the tests of the command line share. The binaries are the first arguments of each test script."""

import os
import subprocess
import sys
import unittest

TUTTI = sys.argv[1] if len(sys.argv) > 1 else ""
LIAR = sys.argv[2] if len(sys.argv) > 2 else ""  # a tutti whose all-reduce goes wrong as the variable LIAR says
LIMIT = 60  # seconds until a test that hangs is given up


def tutti(*arguments, stdin="", env=None, binary=None):
    """Runs it to its end: returncode, stdout and stderr as text."""
    return subprocess.run([binary or TUTTI, *arguments], input=stdin, capture_output=True, text=True, timeout=LIMIT,
                          env={**os.environ, **(env or {})})


def start(*arguments, **options):
    """Starts it, with pipes to all three streams unless `options` say otherwise."""
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
    """Waits for the end of a process, child of ours or not; False after LIMIT seconds."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        import select
        return bool(select.select([fd], [], [], LIMIT)[0])
    finally:
        os.close(fd)


def main():
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
