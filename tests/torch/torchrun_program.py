"""A program for torchrun: in the first attempt rank 1 dies in the middle of its work."""

import os
import sys

import torch
import torch.distributed as dist

dist.init_process_group("tutti")
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
data = torch.tensor([float(dist.get_rank() + 1)])
if attempt == 0 and dist.get_rank() == 1:
    os.abort()
dist.all_reduce(data)
if dist.get_rank() == 0:
    print(f"attempt {attempt}: sum {data.item()}", flush=True)
dist.destroy_process_group()
