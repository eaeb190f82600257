"""Where the account of a rank's memory comes from: its header, its nodes, or the tensors they name."""

from __future__ import annotations

from chakrakit.arrays import I64
from chakrakit.trace.memory.allocations import Allocations
from chakrakit.trace.memory.counts import from_counts
from chakrakit.trace.memory.model_state import from_model_state
from chakrakit.trace.memory.named_tensors import from_named_tensors
from chakrakit.trace.memory.storages import from_storages
from chakrakit.trace.model import Trace


def allocations_of(
    trace: Trace, start: I64 | None = None, end: I64 | None = None
) -> Allocations | None:
    """All that a trace says about its rank's memory; None where it says nothing.

    `start` and `end` are the times of its rows, by default its own; rows that did not run have -1.
    Of several ways to say it the first counts: `mem_alloc` and `mem_free` of nodes, tensors listed by
    name and bytes (`inputs`, `outputs`), or tensors in the values of operators (`outputs_values`).
    """
    begin = trace.start_ns if start is None else start
    finish = trace.end_ns if end is None else end
    parts = [from_model_state(trace)]
    for source in (from_counts, from_named_tensors, from_storages):
        found = source(trace, begin, finish)
        if found is not None:
            parts.append(found)
            break
    known = [p for p in parts if p is not None]
    if not known:
        return None
    return Allocations.joined(known, known[-1].source) if len(known) > 1 else known[0]
