"""A program that makes a call which fails and does nothing about it: FAILURE STORE RANK. It prints the time before."""

import os
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import tutti_torch  # noqa: F401

failure, store, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
dist.init_process_group("tutti", init_method=f"file://{store}", rank=rank, world_size=2,
                        timeout=timedelta(seconds=0.5 if failure == "late" else 60))
dist.all_reduce(torch.ones(1))
if failure == "late" and rank == 1:
    sys.stdin.read()
print(time.time(), flush=True)
if rank == 0:
    dist.all_reduce(torch.ones(10))
elif failure == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
else:
    dist.all_gather_into_tensor(torch.empty(8), torch.ones(4))
