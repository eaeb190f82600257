"""A small residual network: single or ddp (first argument)."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

CHANNELS = 16


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(CHANNELS), nn.BatchNorm2d(CHANNELS)

    def forward(self, x):
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(x + self.norm2(self.conv2(y)))


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, CHANNELS, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(CHANNELS)
        self.blocks = nn.Sequential(*(Block() for _ in range(3)))
        self.head = nn.Linear(CHANNELS, 10)

    def forward(self, x):
        x = self.blocks(functional.relu(self.norm(self.stem(x))))
        return self.head(x.mean((2, 3)))


torch.manual_seed(0)
model = Cnn()
if sys.argv[1] == "ddp":
    dist.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(3):
    x, y = torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,))
    functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
