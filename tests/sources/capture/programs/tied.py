"""Embedding and head share one weight, cut over ranks while on the meta device."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
with torch.device("meta"):
    model = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 16), nn.Linear(16, 32, bias=False))
    model[2].weight = model[0].weight
fully_shard(model)
model.to_empty(device="cpu")
if model[2].weight is not model[0].weight:
    raise ValueError("two weights")
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    model(torch.randint(0, 32, (2, 4))).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
