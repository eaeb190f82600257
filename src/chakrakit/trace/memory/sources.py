"""Where the account of a rank's memory comes from: its header, its nodes, or the tensors they name."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.errors import TraceError
from chakrakit.trace.memory.allocations import BEFORE, BEFORE_LABEL, KINDS, Allocations
from chakrakit.trace.memory.model_state import from_model_state, model_state
from chakrakit.trace.memory.storages import from_storages
from chakrakit.trace.model import Trace

# Memory from `mem_alloc` and `mem_free`: bytes that nodes take and give back.


HELD_KIND = "held_kind"
"""Header attribute: what the nodes' own allocations are for, where they are not activations."""
_LABELS = ("(held by nodes)", BEFORE_LABEL)
_MOST_BYTES = 2.0**62
"""Of all changes together: their sums are exact in 64 bits."""


def from_counts(trace: Trace, start: I64, end: I64) -> Allocations | None:
    """A node takes its bytes when it starts and releases others when it ends; None without either."""
    columns = trace.table.column_names
    if "mem_alloc" not in columns and "mem_free" not in columns:
        return None
    alloc = trace.column("mem_alloc", 0).astype(np.int64)
    free = trace.column("mem_free", 0).astype(np.int64)
    wrong = np.flatnonzero((alloc < 0) | (free < 0))
    if len(wrong):
        raise TraceError(f"node {trace.ids[wrong[0]]}: mem_alloc and mem_free are bytes, 0 or more")
    order = _issue_order(trace, start, (alloc > 0) | (free > 0))
    row = np.repeat(order, 2)
    at_end = np.tile([False, True], len(order))
    size = np.stack([alloc[order], -free[order]], 1).reshape(-1)
    if np.abs(size.astype(np.float64)).sum() > _MOST_BYTES:
        raise TraceError("nodes take and release more bytes than any memory has; see mem_alloc")
    nonzero = size != 0
    row, at_end, size = row[nonzero], at_end[nonzero], size[nonzero]
    # What is released and was never taken was there before: the model's state, or of rows that are cut off.
    kind = _kind(trace)
    state = sum(part.bytes for part in model_state(trace) if part.kind == KINDS[kind])
    before = max(0, -int(np.cumsum(size).min(initial=0)) - state)
    if before:
        row, at_end, size = np.r_[BEFORE, row], np.r_[False, at_end], np.r_[before, size]
    label = np.zeros(len(size), np.int32)
    label[: bool(before)] = _LABELS.index(BEFORE_LABEL)
    return Allocations(
        row=row,
        at_end=at_end,
        bytes=size,
        kind=np.full(len(size), kind, np.int8),
        label=label,
        labels=_LABELS,
        source="bytes that nodes take and release",
    )


def _issue_order(trace: Trace, start: I64, holds: Mask) -> I64:
    """The file's order where all that hold memory come after those they depend on, else that of starts.

    Nodes that hold none, such as launches that a pass added at the end, say nothing about the order.
    """
    edges = trace.edges
    between = holds[edges.src] & holds[edges.dst]
    if bool((edges.src < edges.dst)[between].all()):
        return np.arange(len(trace))
    return np.argsort(start, kind="stable")


def _kind(trace: Trace) -> int:
    """The kind of the nodes' bytes: one for all, since a release does not say whose bytes it releases."""
    held_kind = str(trace.metadata.attributes.get(HELD_KIND, "activations"))
    return KINDS.index(held_kind if held_kind in KINDS else "other")


# Memory from tensors listed by name and bytes in the attributes `inputs` and `outputs`.


_OTHER = KINDS.index("other")


def from_named_tensors(trace: Trace, start: I64, end: I64) -> Allocations | None:
    """A tensor lives from its first writer's start to its last user's end.

    One that is only read lives throughout. Frees come before what begins at the same time.
    """
    columns = trace.table.column_names
    if "outputs" not in columns and "inputs" not in columns:
        return None
    size: dict[str, int] = {}
    born: dict[str, int] = {}
    dies: dict[str, int] = {}
    for row, name, count in _listed(trace, "outputs"):
        size[name] = max(count, size.get(name, 0))
        born[name] = _earlier(start, row, born.get(name, row))
        dies[name] = _later(end, row, dies.get(name, row))
    for row, name, count in _listed(trace, "inputs"):
        size[name] = max(count, size.get(name, 0))
        if name in born:
            dies[name] = _later(end, row, dies[name])
    return _lives(size, born, dies, start, end)


def _earlier(times: I64, a: int, b: int) -> int:
    return a if times[a] < times[b] else b


def _later(times: I64, a: int, b: int) -> int:
    return a if times[a] > times[b] else b


def _lives(
    size: dict[str, int], born: dict[str, int], dies: dict[str, int], start: I64, end: I64
) -> Allocations:
    names = list(size)
    number = {name: i for i, name in enumerate(names)}
    changes = [
        (int(start[born[n]]) if n in born else -1, size[n], born.get(n, BEFORE), False, number[n])
        for n in names
    ]
    changes += [(int(end[row]), -size[n], row, True, number[n]) for n, row in dies.items()]
    changes.sort(key=lambda change: change[:2])
    _, counts, rows, at_end, labels = zip(*changes, strict=True) if changes else ((),) * 5
    return Allocations(
        row=np.array(rows, np.int64),
        at_end=np.array(at_end, np.bool_),
        bytes=np.array(counts, np.int64),
        kind=np.full(len(rows), _OTHER, np.int8),
        label=np.array(labels, np.int32),
        labels=tuple(names),
        source="tensors listed by the nodes",
        tensors=len(names),
    )


def _listed(trace: Trace, column: str) -> list[tuple[int, str, int]]:
    """(row, name, bytes) of every tensor in a list of `name, bytes, …`."""
    tensors: list[tuple[int, str, int]] = []
    if column not in trace.table.column_names:
        return tensors
    for row, items in enumerate(trace.table.column(column).to_pylist()):
        texts = items or []
        for name, size in zip(texts[::2], texts[1::2], strict=False):
            digits = size.removesuffix(".0")  # STAGE writes some sizes so
            if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
                raise TraceError(
                    f"node {trace.ids[row]}: {column} should list name, bytes, …; {size!r} is not a number"
                )
            tensors.append((row, name, int(digits)))
    return tensors


def allocations_of(
    trace: Trace, start: I64 | None = None, end: I64 | None = None
) -> Allocations | None:
    """A rank's memory as its trace describes it; None where it does not.

    `start` and `end` are the times of its rows, by default its own; rows that did not run have -1.
    Of several descriptions the first counts: `mem_alloc` and `mem_free` of nodes, tensors listed by
    name and bytes (`inputs`, `outputs`), or tensors in the values of operators (`outputs_values`).
    """
    begin = trace.start_ns if start is None else start
    finish = trace.end_ns if end is None else end
    parts = [from_model_state(trace)]
    for source in (from_counts, from_named_tensors, from_storages):
        account = source(trace, begin, finish)
        if account is not None:
            parts.append(account)
            break
    accounts = [p for p in parts if p is not None]
    if not accounts:
        return None
    return Allocations.joined(accounts, accounts[-1].source) if len(accounts) > 1 else accounts[0]
