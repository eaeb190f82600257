"""Kinds of pipeline stages, most of which are alike, and when the last task of each stage can start."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np

from chakrakit.arrays import I64
from chakrakit.exploration.task_rows import BlockRows
from chakrakit.trace.model import Edges
from chakrakit.trace.timing import schedule
from chakrakit.workloads.description import PipelineTask
from chakrakit.workloads.program import Stage, WorkloadLayout


class StageKinds:
    """`of[stage]` is the number of its kind, `stages` has one stage of each kind.

    Stages are of one kind if they run the same blocks, get and hand on messages alike, and end with the
    same task; then their tasks and the end of their step are the same, row by row.
    """

    def __init__(self, layout: WorkloadLayout) -> None:
        self.layout = layout
        numbers: dict[Hashable, int] = {}
        first: dict[int, int] = {}
        self.of: list[int] = []
        for stage in range(layout.workload.plan.pp):
            number = numbers.setdefault(_signature(layout, stage), len(numbers))
            first.setdefault(number, stage)
            self.of.append(number)
        self.stages = [Stage(layout, stage) for stage in first.values()]

    def tasks(self, stage: int) -> tuple[PipelineTask, ...]:
        """The tasks of a stage, in order."""
        return self.layout.schedule.tasks[stage]

    def ranks(self, kind: int) -> int:
        """How many ranks have stages of a kind."""
        stages = [s for s, k in enumerate(self.of) if k == kind]
        return sum(len(self.layout.mesh.ranks_at(s)) for s in stages)


def _signature(layout: WorkloadLayout, stage: int) -> Hashable:
    """What decides a stage's rows."""
    homes, last = layout.schedule.homes(), len(layout.pieces) - 1
    tasks = layout.schedule.tasks[stage]
    chunks = []
    for chunk, piece in enumerate(layout.schedule.pieces[stage]):
        batch = next(c.micro_batch for c in tasks if c.chunk == chunk)
        near = [homes[p, batch][0] if 0 <= p <= last else None for p in (piece - 1, piece + 1)]
        links = tuple(None if n is None else n == stage for n in near)
        chunks.append((tuple(part.block for part in layout.pieces[piece]), links))
    return tuple(chunks), tasks[-1].kind, tasks[-1].chunk, stage in layout.mesh.ends


# --- when the last task of each stage can start -------------------------------------------------


Message = Callable[[int, int, int], int]
"""(bytes, source stage, target stage) → time of the message in picoseconds."""


def pipeline_starts(kinds: StageKinds, rows: BlockRows, spans: I64, message: Message) -> list[int]:
    """For each stage, when the main segment of its last task starts, with tasks as long as `spans`."""
    number = {(b.stage, b.key): i for i, b in enumerate(rows.blocks) if not b.is_tail}
    stages: list[int] = []
    times: list[int] = []
    main: dict[tuple[int, PipelineTask], int] = {}
    long = spans.reshape(-1, 3).tolist()
    for s, kind in enumerate(kinds.of):
        for task in kinds.tasks(s):
            before, inner, after = long[number[kind, (task.kind, task.chunk)]]
            main[s, task] = len(times) + bool(before)
            mine = [*([before] if before else []), inner, *([after] if after else [])]
            times += mine
            stages += [s] * len(mine)
    edges = _handed_on(kinds, main, message)
    timetable = schedule(len(times), edges, np.array(times), resource=np.array(stages))
    return [int(timetable.start[main[s, kinds.tasks(s)[-1]]]) for s in range(len(kinds.of))]


def _handed_on(
    kinds: StageKinds, main: dict[tuple[int, PipelineTask], int], message: Message
) -> Edges:
    """From a task to the same micro-batch's on the next piece, with the message between them."""
    plan = kinds.layout.schedule
    homes = plan.homes()
    lags: dict[tuple[int, int, int], int] = {}
    lagged_pairs: list[tuple[int, int, int]] = []
    for (s, task), row in main.items():
        piece = plan.pieces[s][task.chunk]
        neighbour = homes.get((piece - 1 if task.kind == "F" else piece + 1, task.micro_batch))
        if neighbour is None or task.kind == "W":
            continue
        chunk = kinds.stages[kinds.of[s]].chunks[task.chunk]
        link = chunk.source if task.kind == "F" else chunk.sink
        key = (link.size if link else 0, neighbour[0], s)
        if key not in lags:
            lags[key] = 0 if neighbour[0] == s else message(*key)
        for kind in "F" if task.kind == "F" else "BI":
            source = main.get((neighbour[0], PipelineTask(kind, task.micro_batch, neighbour[1])))
            if source is not None:
                lagged_pairs.append((source, row, lags[key]))
    src, dst, lag = np.array(lagged_pairs, np.int64).reshape(-1, 3).T
    return Edges.of(src.astype(np.int32), dst.astype(np.int32), lag=lag)
