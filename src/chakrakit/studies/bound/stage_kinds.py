"""The stages of a pipeline that differ: the ones in the middle are mostly all alike."""

from __future__ import annotations

from collections.abc import Hashable

from chakrakit.workloads.description import PipelineTask
from chakrakit.workloads.program import Layout, Stage


class StageKinds:
    """`of[stage]` is the number of its kind, `stages` has one stage of each kind.

    Stages are of one kind if they run the same blocks, get and hand on messages alike, and end with the
    same task; then their tasks and the end of their step are the same, row by row.
    """

    def __init__(self, layout: Layout) -> None:
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


def _signature(layout: Layout, stage: int) -> Hashable:
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
