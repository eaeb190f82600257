"""What it takes to set up a process group of gloo, by its size: the constants behind `software.groups: gloo`.

python benchmarks/group_setup.py [LARGEST]

Processes on this machine, meeting over its loopback, as `torch.distributed` makes them. A line is fitted to
the medians of several groups of each size. Needs PyTorch.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch.distributed as dist
import torch.multiprocessing as mp

TIMES = 7


def member(rank: int, size: int, folder: str) -> None:
    """Creates groups of all processes, and tells how long each took."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo"}
    store = dist.FileStore(f"{folder}/store{size}", size)
    dist.init_process_group("gloo", rank=rank, world_size=size, store=store)
    took = []
    for _ in range(TIMES):
        dist.barrier()
        begun = time.perf_counter()
        dist.new_group(list(range(size)))
        took.append(time.perf_counter() - begun)
    if rank == 0:
        Path(folder, f"took{size}").write_text(" ".join(map(str, took)))
    dist.destroy_process_group()


def measured(size: int, folder: str) -> float:
    """Median seconds of a group of this size."""
    mp.spawn(member, (size, folder), nprocs=size)
    return statistics.median(map(float, Path(folder, f"took{size}").read_text().split()))


def main(largest: int = 8) -> None:
    """The table and the line through it."""
    sizes = [n for n in (2, 3, 4, 6, 8, 12, 16, 24, 32) if n <= largest]
    with tempfile.TemporaryDirectory() as folder:
        took = [measured(n, folder) for n in sizes]
    for n, seconds in zip(sizes, took, strict=True):
        print(f"{n:3} members {seconds * 1e3:8.2f} ms")
    slope, start = np.polyfit(sizes, took, 1)
    print(f"create {start * 1e3:.2f} ms and {slope * 1e3:.2f} ms a member")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
