"""`chakra analyze`, all sections: CPU seconds and peak memory of a command of its own.

    python benchmarks/analyze.py                      64 ranks × 100,000 nodes, made here
    python benchmarks/analyze.py RUN …                runs at hand

HTA needs over 60 s of CPU and 479 MB, TraceLens 21.6 s and 835 MB for a Kineto file of 216,000 events
(df_index_resolver of HTA's test data); `chakra link` it first, then name the run here.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import chakrakit as ck

BLOCK = 100
"""Nodes from one collective to the next."""


def make(folder: Path, ranks: int, nodes: int) -> None:
    """Ranks with programs of their own that meet in a collective every 100 nodes."""
    blocks = nodes // BLOCK
    rng = np.random.default_rng(0)
    ready = np.zeros(ranks, np.int64)
    starts = np.empty((blocks, ranks, BLOCK), np.int64)
    took = rng.integers(2_000, 60_000, (blocks, ranks, BLOCK))
    for b in range(blocks):
        ends = ready[:, None] + np.cumsum(took[b], axis=1)
        starts[b] = ends - took[b]
        done = starts[b, :, -1].max() + 100_000
        took[b, :, -1] = done - starts[b, :, -1]
        ready[:] = done
    bodies = [
        _body(rank, starts[:, rank].reshape(-1), took[:, rank].reshape(-1)) for rank in range(ranks)
    ]
    groups = ck.Groups({"1": range(ranks)})
    run = ck.Run(bodies, {r: ck.Binding(r) for r in range(ranks)}, groups, ck.Card(name="made"))
    ck.write(run, folder)


def _body(rank: int, start: np.ndarray, took: np.ndarray) -> ck.Trace:
    n = len(start)
    comm = np.arange(n) % BLOCK == BLOCK - 1
    names = np.array([f"kernel {i}" for i in range(50)] + ["all-reduce"])
    which = np.where(comm, 50, np.random.default_rng(rank).integers(0, 50, n))
    row = np.arange(n, dtype=np.int32)
    far = np.maximum(row[2:] - 7, 0)
    edges = ck.Edges.of(np.concatenate([row[:-1], far]), np.concatenate([row[1:], row[2:]]))
    return ck.Trace.from_columns(
        {
            "name": names[which].tolist(),
            "type": np.where(comm, 7, 4),
            "is_cpu_op": np.zeros(n, bool),
            "stream": np.where(comm, 20, 7),
            "start_time_ns": start,
            "duration_ns": took,
            "num_ops": np.full(n, 10**9),
            "comm_type": [0 if c else None for c in comm.tolist()],
            "comm_size": [1 << 20 if c else None for c in comm.tolist()],
            "pg_name": ["1" if c else None for c in comm.tolist()],
        },
        edges,
    )


def measure(path: str) -> str:
    """CPU seconds and peak memory of `chakra analyze PATH --json`."""
    command = [str(Path(sys.executable).with_name("chakra")), "analyze", path, "--json"]
    with Path(os.devnull).open("wb") as nowhere:
        child = subprocess.Popen(command, stdout=nowhere)
        _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{path}: analyze failed")
    return f"{path}: {used.ru_utime + used.ru_stime:.2f} s CPU, {used.ru_maxrss / 1024:,.0f} MB"


def main() -> None:
    """As the module says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("runs", nargs="*")
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--nodes", type=int, default=100_000)
    args = parser.parse_args()
    for path in args.runs:
        print(measure(path))
    if not args.runs:
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder) / "made", args.ranks, args.nodes)
            print(measure(str(Path(folder) / "made")))


if __name__ == "__main__":
    main()
