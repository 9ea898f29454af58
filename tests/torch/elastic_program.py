"""A training that goes on after a restart: FOLDER STEPS [FAULT ...].

A fault is kill:RANK:PLACE. PLACE is the number of a step, `start` (before the process group) or `group` (before a
group of all ranks that the others make). Each happens once in the life of FOLDER, in which the program also keeps its
checkpoint, a line of `log` for each start, the texts of errors and, at the end, `result`. A step takes ELASTIC_PAUSE
seconds more until FOLDER has a file `hurry`.
"""

import os
import signal
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn


def save(value, path):
    """Whole or not at all: the process may be killed in the middle."""
    torch.save(value, path + ".new")
    os.replace(path + ".new", path)


def load(path):
    return torch.load(path) if os.path.exists(path) else None


def note(folder, line):
    with open(os.path.join(folder, "log"), "a", encoding="utf-8") as log:
        log.write(line + "\n")


def save_error(folder, rank, error):
    with open(os.path.join(folder, f"error-{rank}-{os.getpid()}"), "w", encoding="utf-8") as file:
        file.write(str(error))


def once(folder, name):
    """True for the first process that asks."""
    try:
        os.close(os.open(os.path.join(folder, name.replace(":", "-")), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def die_at(folder, faults, place, rank):
    for fault in faults:
        kind, of, where = fault.split(":")
        if kind == "kill" and int(of) == rank and where == str(place) and once(folder, fault):
            os.kill(os.getpid(), signal.SIGKILL)


def train(folder, steps, faults, state, keep):
    """The same updates for any number of ranks, which share a batch of 12. All of them call `keep` after each step.

    Returns the parameters. `state` is what `keep` was given last, or None.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    die_at(folder, faults, "group", rank)
    everyone = dist.new_group()
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).double())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    first = 0
    if state is not None:
        first = state["step"]
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    agreed = torch.tensor([first, -first])
    dist.all_reduce(agreed, dist.ReduceOp.MAX, group=everyone)
    assert agreed.tolist() == [first, -first], f"ranks begin at different steps: {agreed.tolist()}, here {first}"
    if rank == 0:
        note(folder, f"ranks {ranks} from step {first}")
    for step in range(first, steps):
        random = torch.Generator().manual_seed(step)
        x = torch.randn(12, 8, generator=random, dtype=torch.float64)
        mine = x[rank::ranks]
        optimizer.zero_grad()
        nn.functional.mse_loss(model(mine), mine[:, :1].sin()).backward()
        die_at(folder, faults, step, rank)
        optimizer.step()
        counted = torch.ones(1)
        dist.all_reduce(counted, group=everyone)
        assert counted.item() == ranks, counted
        keep({"step": step + 1, "model": model.module.state_dict(), "optimizer": optimizer.state_dict()})
    return torch.cat([value.flatten() for value in model.module.state_dict().values()])


def main(folder, steps, *faults):
    torch.set_num_threads(1)
    rank, path = int(os.environ["RANK"]), os.path.join(folder, "checkpoint")
    if faults:  # the launcher ends the survivors at once: they are to write their error before
        signal.signal(signal.SIGTERM, lambda *_: threading.Timer(5, os._exit, [1]).start())

    def keep(state):
        if dist.get_rank() == 0:
            save(state, path)
        if not os.path.exists(os.path.join(folder, "hurry")):
            time.sleep(float(os.environ.get("ELASTIC_PAUSE", "0")))

    die_at(folder, faults, "start", rank)
    try:
        dist.init_process_group(os.environ.get("ELASTIC_BACKEND", "tutti"), timeout=timedelta(seconds=60))
        result = train(folder, int(steps), faults, load(path), keep)
    except dist.DistBackendError as error:
        save_error(folder, rank, error)
        sys.exit(1)
    if dist.get_rank() == 0:
        save(result, os.path.join(folder, "result"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
