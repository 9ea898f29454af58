"""A job that tests look at from outside while it runs."""

import json
import os
import signal
import subprocess
import time

from support import LIMIT, TUTTI, children, start, tutti


def descendants(process):
    """Of a process; other tests have jobs too."""
    try:
        return [one for child in children(process) for one in [child, *descendants(child)]]
    except FileNotFoundError:
        return []


class Job:
    """Calls without end, by four processes of `binary` (by default tutti)."""

    def __init__(self, *arguments, binary=None, env=None, options=()):
        self.runs = start("run", "-n", "4", "--no-prefix", *options, "--", binary or TUTTI, *arguments, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, env={**os.environ, **(env or {})})
        self.ranks = {}
        until(self.all_ranks_call)
        if len(self.ranks) != 4:
            self.__exit__()
            raise AssertionError(self.ranks)

    def all_ranks_call(self):
        for process in descendants(self.runs.pid):
            done = tutti("status", "--json", str(process))
            if done.returncode != 0:
                continue
            for one in json.loads(done.stdout)["processes"]:
                for rank in one["ranks"]:
                    if rank["title"] == "world" and rank.get("entered", 0) > 0:
                        self.ranks[rank["rank"]] = one["process"]
        return len(self.ranks) == 4

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for process in descendants(self.runs.pid):
            try:
                os.kill(process, signal.SIGCONT)
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.runs.communicate(timeout=LIMIT)


def page_of(process):
    return json.loads(tutti("status", "--json", str(process)).stdout)


def until(condition):
    """Its first true value, or the last one after a while."""
    end = time.time() + LIMIT / 2
    while True:
        value = condition()
        if value or time.time() > end:
            return value
        time.sleep(0.2)


ENDLESS = ("perf", "all_reduce", "-b", "64K", "-e", "64K", "-n", "100000000", "-w", "0", "-c", "0")
