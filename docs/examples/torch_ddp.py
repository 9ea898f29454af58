"""DistributedDataParallel over Tutti, on CPUs.

    torchrun --nproc-per-node 2 docs/examples/torch_ddp.py
"""

import torch
import torch.distributed as dist
import tutti_torch
from torch import nn

dist.init_process_group("tutti")  # instead of "gloo"
torch.set_num_threads(1)
torch.manual_seed(dist.get_rank())  # each rank has data of its own; DDP gives all of them rank 0's model

model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 1)))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(101):
    x = torch.randn(32, 64)
    loss = nn.functional.mse_loss(model(x), x[:, :1].sin())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        dist.all_reduce(loss.detach_(), dist.ReduceOp.AVG)
        if dist.get_rank() == 0:
            print(f"step {step}: loss {loss.item():.4f}", flush=True)

if dist.get_rank() == 0:
    print("an all-reduce went by", tutti_torch.last_call())
dist.destroy_process_group()
