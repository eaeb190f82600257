"""Compiled functions with views between kernels: of a result that a product passes by, and of a cache."""

from __future__ import annotations

import sys

import torch

ROWS, WIDTH = 128, 128


def passed_by(x: torch.Tensor, w: torch.Tensor, cache: torch.Tensor) -> tuple[torch.Tensor, ...]:
    first = torch.relu(w)
    seen = first.view(-1)
    return w @ w + first, seen


def stored(x: torch.Tensor, w: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
    each = x.view(ROWS, 2, WIDTH)
    turned = torch.cat((-each[..., WIDTH // 2 :], each[..., : WIDTH // 2]), -1)
    cache[0, :, -1] = turned[:, 0]
    cache[1, :, -1] = each[:, 1]
    return turned * 2


function = {"passed_by": passed_by, "stored": stored}[sys.argv[1]]
x = torch.ones(ROWS, 2 * WIDTH, device="cuda")
w = torch.ones(ROWS, ROWS, device="cuda")
cache = torch.ones(2, ROWS, 16, WIDTH, device="cuda")


def step() -> object:
    return torch.compile(function)(x, w, cache)


step()
