"""A list of passes over traces, with an account of what each did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from chakrakit.passes.base.base import Pass
from chakrakit.results import Result
from chakrakit.trace.sets import Run, TraceSet


class Size(Result, msgspec.Struct):
    """The size of a set of traces: ranks, the bodies they share, and nodes over all ranks."""

    ranks: int
    bodies: int
    nodes: int


class Applied(Result, msgspec.Struct):
    """One pass: how it is spelled, what it says it preserves, and what came out."""

    spec: str
    preserves: str
    after: Size
    notes: dict[str, Any]
    """What the pass reports; each pass has its own keys (docs/passes.md)."""


class Transformed(Result, msgspec.Struct):
    """What a list of passes did."""

    before: Size
    after: Size
    card_passes: list[str]
    """All passes in the card of the result, those of earlier transforms included."""
    applied: list[Applied]
    times: Literal["none", "kept", "dropped"]
    """For a run: `kept` if the result is a run too, `dropped` if it must be simulated again."""


def transform(traces: TraceSet, passes: Sequence[Pass]) -> tuple[TraceSet, Transformed]:
    """The traces after all passes, and what each did."""
    before, size, applied = traces, size_of(traces), []
    first = size
    for applied_pass in passes:
        after = before | applied_pass
        size = size_of(after)
        applied.append(
            Applied(
                str(applied_pass), applied_pass.preserves, size, applied_pass.explain(before, after)
            )
        )
        before = after
    return before, Transformed(
        first, size, list(before.card.passes), applied, _times(traces, before)
    )


def _times(before: TraceSet, after: TraceSet) -> Literal["none", "kept", "dropped"]:
    if not isinstance(before, Run):
        return "none"
    return "kept" if isinstance(after, Run) else "dropped"


def size_of(traces: TraceSet) -> Size:
    """Returns the size of a set; each body is read once."""
    used = sorted({b.body for b in traces.bindings.values()})
    nodes = {number: len(traces.body_at(number)) for number in used}
    total = sum(nodes[b.body] for b in traces.bindings.values())
    return Size(len(traces), len(used), total)
