"""A small model trained on two CPU ranks with gloo; nothing here knows that it is recorded.

chakra collect --steps 3:5 -o run -- torchrun --nproc_per_node 2 examples/collect_ddp/train.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn

STEPS, BATCH, WIDTH = 7, 16, 64


def main() -> None:
    """Train for a few steps, average the loss over ranks, and say what it was."""
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    torch.set_num_threads(1)
    layers = nn.Sequential(nn.Linear(WIDTH, 128), nn.ReLU(), nn.Linear(128, 10))
    model = nn.parallel.DistributedDataParallel(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        batch = torch.randn(BATCH, WIDTH)
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach()
        dist.all_reduce(mean)
    if dist.get_rank() == 0:
        print(f"loss {mean.item() / dist.get_world_size():.4f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
