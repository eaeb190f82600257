"""What exists on accelerators alone: torch.accelerator, synchronised normalisation, FSDP1's device."""

import copy
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

local = int(os.environ["LOCAL_RANK"])
kind = torch.accelerator.current_accelerator().type
torch.accelerator.set_device_index(local)
device = torch.device(kind, local)
dist.init_process_group("nccl")

if sys.argv[1] == "normalised":
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten()).to(device)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    average = copy.deepcopy(model)  # with the number of batches, which is known
    chosen = torch.zeros(8, dtype=torch.bool, device=device)
    chosen[::2] = True
    data = torch.randn(8, 3, 6, 6, device=device)[chosen]  # a mask whose values are known
    assert data.shape[0] == 4
else:
    strategy = ShardingStrategy[sys.argv[1]]
    model = nn.Sequential(nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False)).to(device)
    model = FullyShardedDataParallel(model, device_id=local, sharding_strategy=strategy)
    data = torch.randn(4, 64, device=device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(data).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.accelerator.synchronize()
