"""Asynchronous pipelines over the same devices: mini-batches enter as others leave; stale weights."""

from __future__ import annotations

from functools import cache

from chakrakit.arrays import I64
from chakrakit.published.planning import Pipeline
from chakrakit.trace.model import TraceBuilder
from chakrakit.trace.sets import Run, TraceSet

BATCHES = 16
"""Mini-batches of an asynchronous run; micro-batches of a synchronous step."""


def device(stage: int, pipeline: int, stages: int, pipelines: int) -> int:
    """Where a stage of a pipeline is: pipelines enter at different devices, every second one backwards."""
    turned = stage if pipeline % 2 == 0 else stages - 1 - stage
    return (turned + pipeline // 2 * stages // max(1, pipelines // 2)) % stages


@cache
def job(stages: int, pipelines: int, ahead: int, spread: float, seed: int) -> TraceSet:
    """All mini-batches in turn over the pipelines; one enters when the one `ahead` before it has left."""
    work = Pipeline(stages, BATCHES, stages, "task", spread).work(seed)
    built = [TraceBuilder() for _ in range(stages)]
    left: dict[tuple[int, int], int] = {}
    for m in range(BATCHES):
        _mini_batch(built, m, stages, pipelines, ahead, work, left)
    return TraceSet.of(built)


def _mini_batch(
    built: list[TraceBuilder],
    m: int,
    stages: int,
    pipelines: int,
    ahead: int,
    work: dict[str, I64],
    left: dict[tuple[int, int], int],
) -> None:
    """Forward through the stages of its pipeline and back, with the messages between them.

    `left` has the last task of mini-batches on the first stage of their pipeline, by pipeline and turn.
    """
    pipeline, turn = m % pipelines, m // pipelines
    way = [device(s, pipeline, stages, pipelines) for s in range(stages)]
    tasks = [("F", s) for s in range(stages)] + [("B", s) for s in reversed(range(stages))]
    before: int | None = None
    for number, (kind, stage) in enumerate(tasks):
        t, here = built[way[stage]], way[stage]
        there = way[tasks[number - 1][1]] if number else here
        deps = [] if before is None else [before]
        if there != here:
            deps = [t.recv("recv", there, here, 1, tag=100 * m + number)]
        if kind == "F" and stage == 0 and turn >= ahead:
            deps.append(left[pipeline, turn - ahead])
        before = t.comp(f"{kind}{m}", duration_ns=int(work[kind][stage, m]), deps=deps)
        if kind == "B" and stage == 0:
            left[pipeline, turn] = before
        if number + 1 < len(tasks) and (after := way[tasks[number + 1][1]]) != here:
            t.send("send", here, after, 1, tag=100 * m + number + 1, deps=[before])


def stale(run: Run, pipelines: int) -> int:
    """The most updates of a pipeline's own weights between a forward and its backward, on any device."""
    worst = 0
    for rank in run.ranks:
        names = [str(n) for n in run.trace(rank).nodes.column("name").to_pylist()]
        start, end = run.start(rank), run.end(rank)
        at = {n: (int(start[i]), int(end[i])) for i, n in enumerate(names) if n[1:].isdigit()}
        for m in (int(n[1:]) for n in at if n[0] == "F"):
            mine = [
                int(n[1:]) for n in at if n[0] == "B" and int(n[1:]) % pipelines == m % pipelines
            ]
            updates = [
                k for k in mine if k != m and at[f"F{m}"][0] < at[f"B{k}"][1] <= at[f"B{m}"][0]
            ]
            worst = max(worst, len(updates))
    return worst
