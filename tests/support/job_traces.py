"""Job traces written by hand: a pipeline of stages and replicas, with delays where a test wants them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

FORWARD, BACKWARD, MESSAGE, REDUCE, CLIP, OPTIMIZER = 0.10, 0.20, 0.01, 0.05, 0.02, 0.03

Seconds = Callable[[str, int, int, int, int], float]
"""How long an operation takes, by type, replica, stage, step and micro-batch (-1: none)."""


def usual(kind: str, replica: int, stage: int, step: int, batch: int) -> float:
    """Everything as it should be."""
    return {"forward-compute": FORWARD, "backward-compute": BACKWARD, "optimizer": OPTIMIZER}[kind]


def write_job(
    path: Path,
    seconds: Seconds = usual,
    replicas: int = 2,
    stages: int = 2,
    batches: int = 3,
    steps: tuple[int, ...] = (5, 9),
) -> Path:
    """GPipe: all forwards, then all backwards, in order; messages take 10 ms once both ends are there."""
    rows: list[dict[str, object]] = []
    for step in steps:
        rows += _step(seconds, replicas, stages, batches, step)
    table = pa.table({name: [row[name] for row in rows] for name in rows[0]})
    numbers = {
        name: pa.int32() for name in ("dp_rank", "stage", "rank", "seq_id", "mc", "mb_id", "gmc")
    }
    fields = [pa.field(f.name, numbers.get(f.name, f.type)) for f in table.schema]
    pq.write_table(table.cast(pa.schema(fields)), path)
    return path


def _step(
    seconds: Seconds, replicas: int, stages: int, batches: int, step: int
) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    free = {(d, s): 0.0 for d in range(replicas) for s in range(stages)}
    count: dict[tuple[str, int, int], int] = {}

    def add(kind: str, d: int, s: int, start: float, end: float, batch: int = -1) -> None:
        number = count.get((kind, d, s), 0)
        count[kind, d, s] = number + 1
        compute = kind.endswith("compute")
        rows.append(
            {
                "dp_rank": d,
                "stage": s,
                "rank": s * replicas + d,
                "step": step,
                "optype": kind,
                "start_ts": start,
                "duration": end - start,
                "seq_id": number,
                "mc": 0 if compute else -1,
                "mb_id": batch,
                "gmc": s if compute else -1,
            }
        )

    def run(kind: str, d: int, s: int, ready: float, batch: int) -> float:
        start = max(free[d, s], ready)
        free[d, s] = start + seconds(kind, d, s, step, batch)
        add(kind, d, s, start, free[d, s], batch)
        return free[d, s]

    for d in range(replicas):
        for way, order in (
            ("forward", list(range(stages))),
            ("backward", list(range(stages))[::-1]),
        ):
            for batch in range(batches):
                ready = 0.0
                for s, peer in zip(order, [*order[1:], None], strict=True):
                    done = run(f"{way}-compute", d, s, ready, batch)
                    if peer is None:
                        continue
                    posted = free[d, peer]
                    ready = max(done, posted) + MESSAGE
                    add(f"{way}-send", d, s, done, ready)
                    add(f"{way}-recv", d, peer, posted, ready)
    for s in range(stages):
        _together(
            rows, add, free, "grads-reduce-scatter", [(d, s) for d in range(replicas)], REDUCE
        )
    _together(rows, add, free, "optimizer-clip-main-grad", list(free), CLIP)
    for d, s in free:
        start = free[d, s]
        free[d, s] = start + seconds("optimizer", d, s, step, -1)
        add("optimizer", d, s, start, free[d, s])
    return rows


def _together(rows, add, free, kind: str, members: list[tuple[int, int]], seconds: float) -> None:
    meet = max(free[m] for m in members)
    for d, s in members:
        add(kind, d, s, free[d, s], meet + seconds)
        free[d, s] = meet + seconds
