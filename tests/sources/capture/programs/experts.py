"""Tokens of eight experts times a matrix each: one grouped product, and two for its gradients."""

import torch

device = "cuda"
tokens = torch.randn(256, 64, dtype=torch.bfloat16, device=device, requires_grad=True)
experts = torch.nn.Parameter(torch.randn(8, 64, 128, dtype=torch.bfloat16, device=device))
ends = torch.arange(32, 257, 32, dtype=torch.int32, device=device)
optimizer = torch.optim.SGD([experts], lr=0.1)
for _ in range(2):
    torch._grouped_mm(tokens, experts, offs=ends).square().sum().backward()
    optimizer.step()
