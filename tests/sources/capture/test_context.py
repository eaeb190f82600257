"""A block of the program itself captured, as rank 0 here and as other ranks in processes of their own."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist

import chakrakit as ck


def train() -> None:
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(5):
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def test_a_block_becomes_all_ranks_and_leaves_nothing_behind() -> None:
    before = torch.nn.parallel.DistributedDataParallel, os.environ.get("RANK")
    with ck.capture(ranks=64) as c:
        train()
    assert (len(c.traces), c.traces.body_count) == (64, 1)
    assert [(x.type, x.count, x.bytes) for x in c.report.collectives] == [("ALL_REDUCE", 1, 4 * 72)]
    assert (torch.nn.parallel.DistributedDataParallel, os.environ.get("RANK")) == before
    assert torch.ones(2).sum().item() == 2  # values are real again
