"""A block of a transformer's MLP in training, compiled by the backend that is named."""

import sys

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = (
            nn.LayerNorm(256),
            nn.Linear(256, 1024),
            nn.Linear(1024, 256),
        )

    def forward(self, x):
        inner = self.up(self.norm(x))
        return x + self.down(torch.nn.functional.gelu(inner) * inner)


device = "cuda"
model = torch.compile(Block().to(device), backend=sys.argv[1])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(512, 256, device=device)
for _ in range(2):
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
