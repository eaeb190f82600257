"""Cells in the order of a pipeline's schedule: when the last one of each stage can start."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from chakrakit.arrays import I64
from chakrakit.studies.bound.stage_kinds import StageKinds
from chakrakit.studies.bound.task_rows import TaskRows
from chakrakit.trace.model import Edges
from chakrakit.trace.timing import schedule
from chakrakit.workloads.description import PipelineTask

Message = Callable[[int, int, int], int]
"""Time of so many bytes from one stage to another."""


def pipeline_starts(kinds: StageKinds, rows: TaskRows, spans: I64, message: Message) -> list[int]:
    """For each stage, when the main segment of its last task starts, with tasks as long as `spans`."""
    number = {(b.stage, b.key): i for i, b in enumerate(rows.blocks) if not b.is_tail}
    lanes: list[int] = []
    times: list[int] = []
    main: dict[tuple[int, PipelineTask], int] = {}
    long = spans.reshape(-1, 3).tolist()
    for s, kind in enumerate(kinds.of):
        for task in kinds.tasks(s):
            before, inner, after = long[number[kind, (task.kind, task.chunk)]]
            main[s, task] = len(times) + (before > 0)
            mine = [*([before] if before else []), inner, *([after] if after else [])]
            times += mine
            lanes += [s] * len(mine)
    edges = _handed_on(kinds, main, message)
    done = schedule(len(times), edges, np.array(times), resource=np.array(lanes))
    return [int(done.start[main[s, kinds.tasks(s)[-1]]]) for s in range(len(kinds.of))]


def _handed_on(
    kinds: StageKinds, main: dict[tuple[int, PipelineTask], int], message: Message
) -> Edges:
    """From a task to the same micro-batch's on the next piece, with the message between them."""
    plan = kinds.layout.schedule
    homes = plan.homes()
    lags: dict[tuple[int, int, int], int] = {}
    found: list[tuple[int, int, int]] = []
    for (s, task), row in main.items():
        piece = plan.pieces[s][task.chunk]
        other = homes.get((piece - 1 if task.kind == "F" else piece + 1, task.micro_batch))
        if other is None or task.kind == "W":
            continue
        chunk = kinds.stages[kinds.of[s]].chunks[task.chunk]
        link = chunk.source if task.kind == "F" else chunk.sink
        key = (link.size if link else 0, other[0], s)
        if key not in lags:
            lags[key] = 0 if other[0] == s else message(*key)
        for kind in "F" if task.kind == "F" else "BI":
            source = main.get((other[0], PipelineTask(kind, task.micro_batch, other[1])))
            if source is not None:
                found.append((source, row, lags[key]))
    src, dst, lag = np.array(found, np.int64).reshape(-1, 3).T
    return Edges.of(src.astype(np.int32), dst.astype(np.int32), lag=lag)
