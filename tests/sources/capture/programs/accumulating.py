"""Gradients of two micro-batches before each step, the first without communication; then an evaluation."""

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    for last in (False, True):
        with nullcontext() if last else model.no_sync():
            model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        model(torch.randn(4, 8))
