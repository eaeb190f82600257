"""Four blocks of two products, sharded by FSDP2 or FSDP1 (`flat`)."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy


class Block(nn.Sequential):
    """What is gathered at once."""


dist.init_process_group("nccl")
model = nn.Sequential(
    *(Block(nn.Linear(64, 96, bias=False), nn.Linear(96, 64, bias=False)) for _ in range(4))
)
model = model.cuda()
if sys.argv[1:] == ["flat"]:
    model = FullyShardedDataParallel(
        model, auto_wrap_policy=ModuleWrapPolicy({Block}), use_orig_params=True
    )
else:
    for block in model:
        fully_shard(block)
    fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for _ in range(2):
    model(torch.randn(8, 64, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
