"""Which observer node is which Kineto event, and by which rule they were paired.

`align` lays two recordings of the same work side by side by the order of names.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I32, I64, Mask
from chakrakit.sources.pytorch.read import Kind, Kineto, Observer, TextPool

_LOOK_AHEAD = 256
"""Entries searched on both sides after a difference; time and memory grow with its square."""
_AGREE = 3
"""Names in a row that must agree there; one or two agree by chance where operators repeat."""


def align(first: I32, second: I32) -> tuple[I64, I64]:
    """Positions in `left` and `right` that hold the same name in the same order.

    Equal stretches are taken whole; after a difference both sides are searched for the next place
    where a few names in a row agree, at most 256 entries on, and the nearest such place wins. Linear in the
    lengths, unlike a longest common subsequence, and the same for recordings of one program.
    """
    pairs: list[tuple[int, int, int]] = []
    a = b = 0
    while a < len(first) and b < len(second):
        length = _equal_run(first[a:], second[b:])
        if length:
            pairs.append((a, b, length))
            a, b = a + length, b + length
            continue
        step = _resynchronize(first[a : a + _LOOK_AHEAD], second[b : b + _LOOK_AHEAD])
        a, b = a + step[0], b + step[1]
    if not pairs:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return (
        np.concatenate([np.arange(a, a + n) for a, _, n in pairs]),
        np.concatenate([np.arange(b, b + n) for _, b, n in pairs]),
    )


def _equal_run(first: I32, second: I32) -> int:
    n = min(len(first), len(second))
    block = 1024
    for begin in range(0, n, block):
        end = min(begin + block, n)
        differs = first[begin:end] != second[begin:end]
        if differs.any():
            return begin + int(differs.argmax())
        block *= 2 if block < 1 << 20 else 1
    return n


def _resynchronize(first: I32, second: I32) -> tuple[int, int]:
    """How far to skip on each side; (1, 1) where nothing in sight agrees."""
    need = min(_AGREE, len(first), len(second))
    rows, columns = len(first) - need + 1, len(second) - need + 1
    same = np.ones((rows, columns), np.bool_)
    for i in range(need):
        same &= first[i : i + rows, None] == second[None, i : i + columns]
    hits = np.argwhere(same)
    if not len(hits):
        return 1, 1
    nearest = hits[hits.sum(axis=1).argmin()]
    return int(nearest[0]), int(nearest[1])


_TRUSTED = 0.9
"""Share of pairs whose names must agree before a rule that pairs by number is believed."""


@dataclass(frozen=True)
class Join:
    """`event_of[row]` is the Kineto event of an observer row, -1 for none; `rules` counts pairs.

    Record-function ids are exact and are used wherever both files have them. Old files have none:
    then External ids are tried, and believed only if names agree; what is left is paired by order
    and name.
    """

    event_of: I64
    rules: dict[str, int]
    operator_of: I64 | None = None
    """Event → observer row, where one row stands for several events (two passes); else derived."""

    def operators(self, events: int) -> I64:
        """The observer row of each of this number of events, -1 for none."""
        if self.operator_of is not None:
            return self.operator_of
        out = np.full(events, -1, np.int64)
        paired = np.flatnonzero(self.event_of >= 0)
        out[self.event_of[paired]] = paired
        return out


def join(observer: Observer, kineto: Kineto) -> Join:
    """Pair operators of the observer with operators and annotations of Kineto."""
    names = _shared_names(observer.texts, kineto.texts)
    state = _Pairs(observer, kineto, names)
    state.by_number("record function id", kineto.rf_id)
    if state.share < _TRUSTED:
        state.by_number("external id", kineto.external)
    if state.share < 1.0 and state.rules.get("record function id", 0) == 0:
        state.by_order()
    return Join(state.event_of, state.rules)


def _shared_names(source: TextPool, target: TextPool) -> I32:
    """For each text of `left`, the number of the same text in `right`; below 0 for none."""
    numbers = {s: i for i, s in enumerate(target.strings)}
    shared = (numbers.get(s, -2 - i) for i, s in enumerate(source.strings))
    return np.fromiter(shared, np.int32, len(source))


class _Pairs:
    """Pairs found so far; every rule adds to them and never takes one away."""

    def __init__(self, observer: Observer, kineto: Kineto, names: I32) -> None:
        self.observer = observer
        self.kineto = kineto
        self.name = names[observer.name]
        self.event_of = np.full(len(observer), -1, np.int64)
        self.paired = np.zeros(len(kineto), np.bool_)
        self.rules: dict[str, int] = {}

    @property
    def share(self) -> float:
        rows = self.observer.is_operator
        return float((self.event_of[rows] >= 0).mean()) if rows.any() else 1.0

    def _open_rows(self) -> Mask:
        return self.observer.is_operator & (self.event_of < 0)

    def _open_events(self) -> Mask:
        return np.isin(self.kineto.kind, (Kind.OPERATOR, Kind.ANNOTATION)) & ~self.paired

    def by_number(self, rule: str, number: I64) -> None:
        events = np.flatnonzero(self._open_events() & (number > 0))
        rows = np.flatnonzero(self._open_rows() & (self.observer.rf_id > 0))
        ids, at = np.unique(number[events], return_index=True)
        place = np.searchsorted(ids, self.observer.rf_id[rows])
        hit = place < len(ids)
        hit[hit] = ids[place[hit]] == self.observer.rf_id[rows[hit]]
        rows, partners = rows[hit], events[at[place[hit]]]
        agree = self.name[rows] == self.kineto.name[partners]
        if len(rows) and agree.mean() >= _TRUSTED:
            self._take(rule, rows[agree], partners[agree])

    def by_order(self) -> None:
        """Thread by thread: each observer thread with the Kineto thread most alike in names."""
        rows, events = np.flatnonzero(self._open_rows()), np.flatnonzero(self._open_events())
        events = events[np.lexsort((-self.kineto.end[events], self.kineto.start[events]))]
        for tid in np.unique(self.observer.tid[rows]):
            mine = rows[self.observer.tid[rows] == tid]
            theirs = self._likest_thread(mine, events[~self.paired[events]])
            in_mine, in_theirs = align(self.name[mine], self.kineto.name[theirs])
            self._take("order and name", mine[in_mine], theirs[in_theirs])

    def _likest_thread(self, rows: I64, events: I64) -> I64:
        name_counts = np.bincount(np.maximum(self.name[rows], 0), minlength=len(self.kineto.texts))
        name_counts[0] = 0
        best, score = events[:0], 0
        for tid in np.unique(self.kineto.tid[events]):
            theirs = events[self.kineto.tid[events] == tid]
            have = np.bincount(self.kineto.name[theirs], minlength=len(name_counts))
            common = int(np.minimum(have, name_counts).sum())
            if common > score:
                best, score = theirs, common
        return best

    def _take(self, rule: str, rows: I64, events: I64) -> None:
        self.event_of[rows] = events
        self.paired[events] = True
        if len(rows):
            self.rules[rule] = self.rules.get(rule, 0) + len(rows)
