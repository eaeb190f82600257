"""Memory from tensors listed by name and bytes in the attributes `inputs` and `outputs`."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import TraceError
from chakrakit.trace.memory.allocations import BEFORE, KINDS, Allocations
from chakrakit.trace.model import Trace

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
        np.array(rows, np.int64),
        np.array(at_end, np.bool_),
        np.array(counts, np.int64),
        np.full(len(rows), _OTHER, np.int8),
        np.array(labels, np.int32),
        tuple(names),
        "tensors listed by the nodes",
        len(names),
    )


def _listed(trace: Trace, column: str) -> list[tuple[int, str, int]]:
    """(row, name, bytes) of every tensor in a list of `name, bytes, …`."""
    found: list[tuple[int, str, int]] = []
    if column not in trace.table.column_names:
        return found
    for row, items in enumerate(trace.table.column(column).to_pylist()):
        texts = items or []
        for name, size in zip(texts[::2], texts[1::2], strict=False):
            digits = size.removesuffix(".0")  # STAGE writes some sizes so
            if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
                raise TraceError(
                    f"node {trace.ids[row]}: {column} should list name, bytes, …; {size!r} is no number"
                )
            found.append((row, name, int(digits)))
    return found
