"""Circles in a graph with data and control edges: one to show, and the control edges that close them.

Control dependencies of recorded traces are often call stacks, and some contradict the data dependencies:
a caller that follows what it called. Without those the trace runs; with them it never does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I32, I64, U8, Mask
from chakrakit.trace.model import EdgeForm, Graph


@dataclass(frozen=True)
class Circles:
    """A circle as rows, each needed by the next; and which edges are control edges that close one.

    `closing` is None where data edges alone make a circle: then no control edge is to blame.
    """

    path: list[int]
    closing: I64 | None


def find_circles(n: int, src: I32, dst: I32, form: U8, ctrl: Mask) -> Circles | None:
    """None for a graph without circles. Without the closing edges there are none left."""
    per_row = 2 if form.any() else 1
    a, b = _ends(src, dst, form) if per_row == 2 else (src, dst)
    rows = np.arange(n, dtype=np.int32)
    own = (2 * rows, 2 * rows + 1) if per_row == 2 else (rows[:0], rows[:0])
    size = n * per_row
    whole = Graph(size, np.concatenate([own[0], a]), np.concatenate([own[1], b]))
    circle = whole.find_cycle()
    if circle is None:
        return None
    data = Graph(size, np.concatenate([own[0], a[~ctrl]]), np.concatenate([own[1], b[~ctrl]]))
    data_circle = data.find_cycle()
    path = _as_rows(data_circle or circle, per_row)
    if data_circle is not None:
        return Circles(path, None)
    place, component = _places(data), components(whole)
    closing = ctrl & (component[a] == component[b]) & (place[a] >= place[b])
    return Circles(path, np.flatnonzero(closing))


def _ends(src: I32, dst: I32, form: U8) -> tuple[I32, I32]:
    """The events an edge joins: starts are 2 × row, ends 2 × row + 1."""
    from_end = (form != EdgeForm.START_START).astype(np.int32)
    to_end = (form == EdgeForm.FINISH_FINISH).astype(np.int32)
    return 2 * src + from_end, 2 * dst + to_end


def _as_rows(events: list[int], per_row: int) -> list[int]:
    rows = [e // per_row for e in events]
    return [r for i, r in enumerate(rows) if r != rows[i - 1]] or rows[:1]


def _places(data: Graph) -> I64:
    """An order that the data edges keep: that of the file where they keep it."""
    if (data.src < data.dst).all():
        return np.arange(data.n)
    place = np.empty(data.n, np.int64)
    place[data.topological_order()] = np.arange(data.n)
    return place


def components(graph: Graph) -> I64:
    """A number for each row, equal for rows that reach each other (Tarjan's algorithm)."""
    offsets, targets = graph.out_offsets.tolist(), graph.out_targets
    component = np.arange(graph.n, dtype=np.int64)
    number = dict.fromkeys(_suspects(graph).tolist(), 0)
    low: dict[int, int] = {}
    stack: list[int] = []
    counter = 0
    for root in number:
        if number[root]:
            continue
        work = [(root, offsets[root])]
        while work:
            v, at = work.pop()
            if at == offsets[v] and not number[v]:
                counter += 1
                number[v] = low[v] = counter
                stack.append(v)
            for at in range(at, offsets[v + 1]):  # noqa: B020 - goes on where it left off
                w = int(targets[at])
                if w not in number:
                    continue
                if not number[w]:
                    work += [(v, at), (w, offsets[w])]
                    break
                if w in low:
                    low[v] = min(low[v], low[w])
            else:
                if low[v] == number[v]:
                    while low.pop(stack[-1]) and stack[-1] != v:
                        component[stack.pop()] = v
                    component[stack.pop()] = v
    return component


def _suspects(graph: Graph) -> I64:
    """Rows that are on a circle or between circles: neither sorted from the front nor from the back."""
    from_front = np.ones(graph.n, np.bool_)
    from_front[graph.sortable] = False
    from_back = np.ones(graph.n, np.bool_)
    from_back[Graph(graph.n, graph.dst, graph.src).sortable] = False
    return np.flatnonzero(from_front & from_back)
