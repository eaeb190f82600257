"""Memory over time, from what nodes allocate and free or from the lifetimes of tensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import TraceError
from chakrakit.trace.model import Trace


@dataclass(frozen=True, eq=False)
class Memory:
    """Bytes held from each time on; `holders` are the largest at the peak, as (name, bytes)."""

    time: I64
    held: I64
    holders: tuple[tuple[str, int], ...] = ()

    @property
    def peak(self) -> int:
        """Most bytes held at once."""
        return int(self.held.max(initial=0))


def memory_over_time(trace: Trace, start: I64, end: I64) -> Memory | None:
    """None where the trace says nothing about memory.

    `mem_alloc` bytes are held from a node's start, `mem_free` bytes are released at a node's end. Else a
    tensor in `outputs` lives from its first writer's start to its last user's end, and one that is only
    read lives throughout.
    """
    if "mem_alloc" in trace.table.column_names:
        return _from_counts(trace, start, end)
    if "outputs" in trace.table.column_names or "inputs" in trace.table.column_names:
        return _from_tensors(trace, start, end)
    return None


def _from_counts(trace: Trace, start: I64, end: I64) -> Memory:
    alloc = trace.column("mem_alloc", 0).astype(np.int64)
    free = trace.column("mem_free", 0).astype(np.int64)
    memory = _accumulate(np.concatenate([start, end]), np.concatenate([alloc, -free]))
    at = memory.time[int(memory.held.argmax())] if len(memory.time) else 0
    # What is freed later by another node cannot be told apart: the holders are the allocations so far.
    before = np.flatnonzero((start <= at) & (alloc > 0))
    largest = before[np.argsort(-alloc[before], kind="stable")][:10]
    holders = tuple((trace[int(r)].name, int(alloc[r])) for r in largest)
    return Memory(memory.time, memory.held, holders)


def _accumulate(times: I64, changes: I64) -> Memory:
    """At one time, what is freed is freed before what is allocated."""
    order = np.lexsort((changes, times))
    held = np.cumsum(changes[order])
    last = np.r_[times[order][1:] != times[order][:-1], True] if len(times) else np.zeros(0, bool)
    peaks = (
        np.maximum.reduceat(held, np.r_[0, np.flatnonzero(last)[:-1] + 1]) if len(times) else held
    )
    return Memory(times[order][last], peaks)


def _tensors(trace: Trace, column: str) -> list[tuple[int, str, int]]:
    """(row, name, bytes) of every tensor in a list of `name, bytes, …`."""
    found: list[tuple[int, str, int]] = []
    if column not in trace.table.column_names:
        return found
    for row, items in enumerate(trace.table.column(column).to_pylist()):
        texts = items or []
        for name, size in zip(texts[::2], texts[1::2], strict=False):
            digits = size.removesuffix(".0")  # STAGE writes some sizes so
            if not digits.isdigit():
                raise TraceError(
                    f"node {trace.ids[row]}: {column} should list name, bytes, …; {size!r} is no number"
                )
            found.append((row, name, int(digits)))
    return found


def _from_tensors(trace: Trace, start: I64, end: I64) -> Memory:
    size: dict[str, int] = {}
    born: dict[str, int] = {}
    dies: dict[str, int] = {}
    for row, name, count in _tensors(trace, "outputs"):
        size[name] = max(count, size.get(name, 0))
        born[name] = min(int(start[row]), born.get(name, int(start[row])))
        dies[name] = max(int(end[row]), dies.get(name, 0))
    last = int(end.max(initial=0))
    for row, name, count in _tensors(trace, "inputs"):
        size[name] = max(count, size.get(name, 0))
        dies[name] = max(int(end[row]), dies.get(name, 0)) if name in born else last
    begin = np.array([born.get(n, 0) for n in size], np.int64)
    finish = np.array([dies[n] for n in size], np.int64)
    sizes = np.array(list(size.values()), np.int64)
    memory = _accumulate(np.concatenate([begin, finish]), np.concatenate([sizes, -sizes]))
    at = memory.time[int(memory.held.argmax())] if len(memory.time) else 0
    names = sorted(
        (n for n, b, f in zip(size, begin, finish, strict=True) if b <= at < f),
        key=lambda n: -size[n],
    )[:10]
    return Memory(memory.time, memory.held, tuple((n, size[n]) for n in names))
