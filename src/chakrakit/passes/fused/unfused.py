"""Attention that keeps its scores: PyTorch's plain path, and products around a softmax in a program."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.operators import Call, Operand
from chakrakit.passes.base import names_of, texts_of
from chakrakit.passes.edit import SelectedCalls
from chakrakit.passes.fused.replaced import recorded_calls
from chakrakit.trace.model import Trace
from chakrakit.trace.placement import lane_of, on_host

PLAIN = "aten::_scaled_dot_product_attention_math"
"""What PyTorch calls attention by products and a softmax."""
_MASK, _CAUSAL = 3, 5
"""Which of its arguments are a mask, and whether tokens see only earlier ones."""
_SOFTMAX = "aten::_softmax"
_PRODUCTS = {"aten::bmm": 0, "aten::baddbmm": 1}
"""Batched products, and at which place their first factor is."""


class AttentionCall(NamedTuple):
    """One call of attention that is not fused."""

    rows: I64
    """Rows of the host and of the device that carry it out."""
    query: Operand
    key: Operand
    value: Operand
    masked: bool
    """Whether a mask says which tokens are seen, other than that only earlier ones are."""
    causal: bool


def unfused_attention(trace: Trace) -> list[AttentionCall]:
    """Every call of attention that is not fused and says its shapes, in the order of its rows."""
    plain = _plain_calls(trace)
    taken = np.zeros(len(trace), np.bool_)
    for call in plain:
        taken[call.rows] = True
    written = [c for c in _written_calls(trace) if not taken[c.rows].any()]
    return sorted([*plain, *written], key=lambda call: int(call.rows[0]))


def plain_rows(trace: Trace) -> I64:
    """Rows of the host that call attention on PyTorch's plain path."""
    return np.flatnonzero(on_host(trace) & (names_of(trace) == PLAIN))


def _plain_calls(trace: Trace) -> list[AttentionCall]:
    """Calls of the plain path; where later ones were recorded without shapes, they have the first steps'."""
    rows = plain_rows(trace)
    calls = [c for c in recorded_calls(trace, rows) if all(map(c.tensor, range(3)))]
    if not calls or len(rows) % len(calls):
        return []
    selected = np.zeros(len(trace), np.bool_)
    selected[rows] = True
    owner = SelectedCalls(trace, selected).call
    out = []
    for i, row in enumerate(rows.tolist()):
        call = calls[i % len(calls)]
        query, key, value = (t for n in range(3) if (t := call.tensor(n)) is not None)
        masked, causal = call.tensor(_MASK) is not None, call.flag(_CAUSAL)
        out.append(AttentionCall(np.flatnonzero(owner == row), query, key, value, masked, causal))
    return out


# --- products and a softmax that a program wrote ---------------------------------------------------


def _written_calls(trace: Trace) -> Iterator[AttentionCall]:
    """Batched products before and after a softmax over what the first of them made, by their shapes."""
    host, names = on_host(trace), names_of(trace)
    wanted = host & np.isin(names, (_SOFTMAX, *_PRODUCTS))
    rows = np.flatnonzero(wanted & (texts_of(trace, "inputs_shapes") != ""))
    if not (names[rows] == _SOFTMAX).any():
        return
    lane, start = lane_of(trace), trace.start_ns
    rows = rows[np.lexsort((rows, start[rows], lane[rows]))]
    calls = recorded_calls(trace, rows)
    threads = _Threads(trace)
    for i in np.flatnonzero(names[rows] == _SOFTMAX).tolist():
        first, second = (_beside(calls, rows, lane, i, step) for step in (-1, 1))
        if first is None or second is None:
            continue
        shapes = _shapes(calls[i], calls[first], calls[second])
        if shapes is not None:
            between = recorded_calls(trace, threads.after(int(rows[first]), int(rows[i])))
            causal = any(_hides_later(c, shapes[0].shape[-2], shapes[1].shape[-2]) for c in between)
            masked = not causal and any(_hides(c, calls[i]) for c in between)
            inside = threads.between(int(rows[first]), int(rows[second]))
            yield AttentionCall(inside, *shapes, masked, causal)


def _beside(calls: Sequence[Call], rows: I64, lane: I64, at: int, step: int) -> int | None:
    """The nearest product before or after a call on its thread, with no other softmax between."""
    place = at + step
    while 0 <= place < len(rows) and lane[rows[place]] == lane[rows[at]]:
        if calls[place].name in _PRODUCTS:
            return place
        if calls[place].name == _SOFTMAX:
            return None
        place += step
    return None


def _shapes(softmax: Call, first: Call, second: Call) -> tuple[Operand, Operand, Operand] | None:
    """Queries, keys and values; None where the three calls are not attention."""
    scores = softmax.tensor(0)
    a, b = (first.tensor(_PRODUCTS[first.name] + i) for i in range(2))
    p, v = (second.tensor(_PRODUCTS[second.name] + i) for i in range(2))
    if not (scores and a and b and p and v) or len(scores.shape) not in (3, 4):
        return None
    if any(len(t.shape) != 3 for t in (a, b, p, v)):
        return None
    queries, keys = scores.shape[-2:]
    groups = math.prod(scores.shape[:-2])
    fits = (
        (a.shape[:2], b.shape[0], b.shape[2]) == ((groups, queries), groups, keys)
        and p.shape == (groups, queries, keys)
        and v.shape[:2] == (groups, keys)
    )
    if not fits:
        return None
    heads = scores.shape[:2] if len(scores.shape) == 4 else (1, groups)
    sizes = ((queries, a.shape[2]), (keys, a.shape[2]), (keys, v.shape[2]))
    query, key, value = (Operand((*heads, *size), a.each, a.dtype) for size in sizes)
    return query, key, value


def _hides(call: Call, softmax: Call) -> bool:
    """Whether a call gives the scores a mask: a smaller tensor with as many columns."""
    scores, tensors = softmax.tensor(0), call.tensors
    return (
        scores is not None
        and any(t.shape == scores.shape for t in tensors)
        and any(t.shape[-1:] == scores.shape[-1:] for t in tensors if t.shape != scores.shape)
    )


def _hides_later(call: Call, queries: int, keys: int) -> bool:
    """Whether a mask is the same for all sequences and heads: one of positions alone."""
    sizes = [t.shape for t in call.tensors]
    return (
        queries > 1
        and any(math.prod(size[:-2]) > 1 for size in sizes)
        and any(size[-2:] == (queries, keys) and math.prod(size[:-2]) == 1 for size in sizes)
    )


class _Threads:
    """The rows of every thread in their order, to cut a piece out with the kernels it launches."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        host = np.flatnonzero(on_host(trace))
        lane = lane_of(trace)
        self._rows = host[np.lexsort((host, trace.start_ns[host], lane[host]))]
        self._place = np.zeros(len(trace), np.int64)
        self._place[self._rows] = np.arange(len(self._rows))
        self._names = names_of(trace)
        every: Mask = on_host(trace)
        launches = trace.edges.where(every[trace.edges.src] & ~every[trace.edges.dst])
        order = np.argsort(launches.src, kind="stable")
        self._by, self._kernel = launches.src[order], launches.dst[order]

    def after(self, first: int, last: int) -> I64:
        """Rows of the host after one row and before another of its thread."""
        return self._rows[self._place[first] + 1 : self._place[last]]

    def between(self, first: int, last: int) -> I64:
        """Rows from the outermost operator around one row to the end of that around another."""
        begin, end = self._operator(first), self._operator(last)
        stop = int(self._trace.end_ns[end])
        place = self._place[begin]
        rows = self._rows[place : self._place[last] + 1]
        after = self._rows[self._place[last] + 1 :]
        ends = np.flatnonzero(self._trace.start_ns[after] >= stop)
        rows = np.concatenate([rows, after[: int(ends[0]) if len(ends) else len(after)]])
        low = np.searchsorted(self._by, rows, side="left")
        high = np.searchsorted(self._by, rows, side="right")
        kernels = [self._kernel[a:b] for a, b in zip(low.tolist(), high.tolist(), strict=True)]
        return np.unique(np.concatenate([rows, *kernels]))

    def _operator(self, row: int) -> int:
        parent = int(self._trace.parent[row])
        while parent >= 0 and str(self._names[parent]).startswith("aten::"):
            row, parent = parent, int(self._trace.parent[parent])
        return row
