"""The driver's end of the pipes to a program of the comparison; bench/peers/driver_pipes.hpp is the other end."""

import os
import select
import shutil
import signal
import subprocess
import tempfile
import time


class Lost(Exception):
    """A program that ended, failed or did not answer; it says so itself."""


class RankGroup:
    """The ranks of one program. Used in one thread."""

    def __init__(self, program, ranks, cores, folder=None, limit=60.0):
        self.program, self.ranks, self.limit = program, ranks, limit
        self.home = tempfile.mkdtemp(prefix=f"{program.name}-", dir=folder)
        os.mkdir(f"{self.home}/store")
        paths = [f"{self.home}/turn.{rank}" for rank in range(ranks)]
        for path in (*paths, f"{self.home}/said"):
            os.mkfifo(path, 0o600)
        # For reading and writing: opening does not block, and a pipe whose rank has died raises no signal.
        self.turns = [os.open(path, os.O_RDWR | os.O_CLOEXEC) for path in paths]
        self.said = os.open(f"{self.home}/said", os.O_RDWR | os.O_CLOEXEC)
        self.text = b""
        self.log = open(f"{self.home}/log", "w+", encoding="utf-8", errors="replace")
        self.process = None
        try:
            self.process = subprocess.Popen(program.arguments(self.home, ranks, cores), env=program.variables(),
                                            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                            start_new_session=True)
            self._answers()
        except (OSError, Lost) as error:
            self.stop()
            raise Lost(f"{program.name}, {ranks} ranks: {error}") from None

    def ask(self, line):
        """Every rank is told the line; each one's answer as words, in the order of ranks."""
        for turn in self.turns:
            os.write(turn, f"{line}\n".encode())
        try:
            return self._answers()
        except Lost as error:
            raise Lost(f"{self.program.name}, {self.ranks} ranks: {line}: {error}") from None

    def _answers(self):
        answers = {}
        deadline = time.monotonic() + self.limit
        while len(answers) < self.ranks:
            while b"\n" not in self.text:
                # Looks up now and then: ranks that have died say nothing.
                if select.select([self.said], [], [], min(1.0, max(0.0, deadline - time.monotonic())))[0]:
                    self.text += os.read(self.said, 65536)
                elif self.process.poll() is not None:
                    raise Lost(f"ended with status {self.process.returncode}: {self._last_words()}")
                elif time.monotonic() > deadline:
                    raise Lost(f"no answer within {self.limit:g} s: {self._last_words()}")
            line, self.text = self.text.split(b"\n", 1)
            rank, *words = line.decode().split()
            answers[int(rank)] = words
        return [answers[rank] for rank in range(self.ranks)]

    def _last_words(self):
        self.log.flush()
        self.log.seek(0)
        lines = [line.strip() for line in self.log.read().splitlines() if line.strip()]
        return lines[-1] if lines else "it printed nothing"

    def stop(self):
        """Ends it, by force when it does not go by itself; nothing of it is left behind."""
        if self.process is not None:
            for turn in self.turns:
                os.write(turn, b"end\n")
            for politeness in (None, signal.SIGTERM, signal.SIGKILL):
                try:
                    if politeness is not None:
                        os.killpg(self.process.pid, politeness)
                    self.process.wait(5)
                    break
                except subprocess.TimeoutExpired:
                    pass
                except ProcessLookupError:
                    break
        for fd in (*self.turns, self.said):
            os.close(fd)
        self.log.close()
        shutil.rmtree(self.home, ignore_errors=True)
