"""Order: in which order a stage runs its micro-batches, forward and back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from chakrakit.errors import ConfigError, nearest
from chakrakit.passes.base import Pass
from chakrakit.passes.directives.draft import Draft, DraftRow, is_backward
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import TraceSet

_TASK = re.compile(r"([FB])(\d+)")
_SCHEDULES = ("gpipe", "1f1b")


@dataclass(frozen=True)
class Order(Pass):
    """Put the micro-batches of every stage in an order, forward (F) and back (B).

    `schedule` is `gpipe` (all forward, then all back) or `1f1b`; or `tasks` has a list for each stage, as
    `[[F0, F1, B0, B1], [F0, B0, F1, B1]]`, in which every task stands once.
    """

    name: ClassVar[str] = "order"
    preserves: ClassVar[str] = (
        "every node with its work and data; the order of micro-batches changes"
    )
    schedule: str = "1f1b"
    tasks: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.schedule not in _SCHEDULES:
            raise ConfigError(f"schedule={self.schedule}: {nearest(self.schedule, _SCHEDULES)}")

    def apply(self, traces: TraceSet) -> TraceSet:
        """Returns the traces in that order; a body is a stage."""
        count = traces.body_count
        if self.tasks and len(self.tasks) != count:
            raise ConfigError(f"tasks has {len(self.tasks)} lists, and there are {count} stages")
        bodies = [self._ordered(traces.body_at(s), s, count) for s in range(count)]
        return TraceSet(bodies, traces.bindings, traces.groups, traces.card)

    def _ordered(self, body: Trace, stage: int, stages: int) -> Trace:
        draft = Draft(body)
        tasks: dict[str, list[DraftRow]] = {}
        rest: list[DraftRow] = []
        for row in draft.rows:
            if row.get("micro_batch") is None:
                rest.append(row)
            else:
                name = f"{'B' if is_backward(row) else 'F'}{row['micro_batch']}"
                tasks.setdefault(name, []).append(row)
        batches = sum(t[0] == "F" for t in tasks)
        order = self.tasks[stage] if self.tasks else list(self._named(stage, stages, batches))
        if sorted(order) != sorted(tasks):
            missing = sorted(set(tasks) ^ set(order)) or ["one of them twice"]
            raise ConfigError(
                f"stage {stage} should run every task once; look at {', '.join(missing[:4])}"
            )
        draft.rows = [row for task in order for row in tasks[task]] + rest
        draft.in_order()
        return draft.trace()

    def _named(self, stage: int, stages: int, batches: int) -> Iterator[str]:
        ahead = batches if self.schedule == "gpipe" else min(batches, stages - stage - 1)
        yield from (f"F{m}" for m in range(ahead))
        for m in range(batches):
            if m + ahead < batches:
                yield f"F{m + ahead}"
            yield f"B{m}"

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """How many stages were put in order."""
        return {"stages": after.body_count}
