"""One rank of the PyTorch side of bench/train_vs_torch. It sits still, blocked in a read, until a line on its standard
input names a mode and a number of steps; after them rank 0 prints their times as JSON.

    RANK WORLD_SIZE MASTER_ADDR MASTER_PORT   as torchrun sets them
    alone   no communication: what a rank computes
    ddp     DistributedDataParallel over Gloo
    fsdp    fully_shard (FSDP2) over Gloo, each unit a group, as tutti train --zero 3
"""

import argparse
import json
import os
import sys
import time

import torch
import torch.distributed
from gpt import Gpt
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel


def arguments():
    parser = argparse.ArgumentParser()
    for name in ("layers", "width", "heads", "length", "batch"):  # batch: of this rank
        parser.add_argument(f"--{name}", type=int, required=True)
    return parser.parse_args()


class Trainer:
    """A model of its own, wrapped for a mode, and its optimizer."""

    def __init__(self, mode, options):
        self.shape, self.keep = (options.batch, options.length), mode == "ddp"  # DDP: gradients are views of its buckets
        model = Gpt(options.layers, options.width, options.heads, options.length)
        if mode == "ddp":
            model = DistributedDataParallel(model, gradient_as_bucket_view=True)
        elif mode == "fsdp":
            mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
            for unit in model.units():
                fully_shard(unit, mesh=mesh)
            fully_shard(model, mesh=mesh)
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=True)

    def step(self):
        tokens, targets = torch.randint(256, self.shape), torch.randint(256, self.shape)
        self.optimizer.zero_grad(set_to_none=not self.keep)
        self.model(tokens, targets).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, foreach=True)
        self.optimizer.step()

    def times(self, steps):
        """Seconds of each step, and of the processor, mean."""
        seconds, busy = [], time.process_time()
        for _ in range(steps):
            start = time.perf_counter()
            self.step()
            seconds.append(time.perf_counter() - start)
        return seconds, (time.process_time() - busy) / steps


def main():
    options = arguments()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[int(os.environ["RANK"])]})
    torch.distributed.init_process_group("gloo")
    trainers = {mode: Trainer(mode, options) for mode in ("alone", "ddp", "fsdp")}
    for line in sys.stdin:
        mode, steps = line.split()
        times = trainers[mode].times(int(steps))
        if os.environ["RANK"] == "0":
            print(json.dumps(times), flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
