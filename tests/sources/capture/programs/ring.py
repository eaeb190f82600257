"""Attention over a ring of all ranks, as PyTorch's context parallelism does it."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel

dist.init_process_group("nccl")
mesh = init_device_mesh("cuda", (dist.get_world_size(),), mesh_dim_names=("cp",))
project = torch.nn.Linear(64, 192, device="cuda", dtype=torch.bfloat16)
optimizer = torch.optim.SGD(project.parameters())
for _ in range(2):
    x = torch.randn(1, 256, 64, device="cuda", dtype=torch.bfloat16)
    with context_parallel(mesh, buffers=[x], buffer_seq_dims=[1]):
        q, k, v = project(x).view(1, -1, 4, 48).transpose(1, 2).split(16, -1)
        F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
    optimizer.step()
