"""What each event of a rank waited for, as the critical path walks it; of many ranks, read when needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chakrakit.arrays import I8, I32, I64, Mask
from chakrakit.insight.rank import Causes, RankView, causes_of, comm_name
from chakrakit.trace.sets import Times

_MOST_LOADED = 2_000_000
"""Rows of ranks whose events stay in memory, at some 100 bytes each, where not all of them do."""


@dataclass(eq=False)
class RankEvents:
    """What the walk needs of a rank."""

    rank: int
    start: I64
    end: I64
    own: I64
    kind: I8
    name: I32
    texts: list[str]
    operator: I32
    """The name's number of the operator each row belongs to."""
    parent: I32
    background: Mask
    causes: Causes

    @cached_property
    def ran(self) -> Mask:
        """Rows with times."""
        return self.end >= np.maximum(self.start, 0)


class LoadedEvents(Mapping[int, RankEvents]):
    """Events of many ranks, each made when the walk comes to it; the last ones stay."""

    def __init__(self, ranks: Sequence[int], load: Callable[[int], RankEvents]) -> None:
        self._ranks, self._load = ranks, load
        self._kept: dict[int, RankEvents] = {}
        self._rows = 0

    def __getitem__(self, rank: int) -> RankEvents:
        found = self._kept.pop(rank, None)
        if found is None:
            found = self._load(rank)
            self._rows += len(found.start)
            while self._kept and self._rows > _MOST_LOADED:
                self._rows -= len(self._kept.pop(next(iter(self._kept))).start)
        self._kept[rank] = found  # at the end: the first is the one not used for longest
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self._ranks)

    def __len__(self) -> int:
        return len(self._ranks)


def events_of(view: RankView, times: Times | None) -> RankEvents:
    """The part of one rank."""
    codes, texts = view.names
    names, operator = codes.copy(), codes[view.operator].copy()
    texts = list(texts)
    comm = np.flatnonzero(view.is_comm)
    known: dict[str, int] = {}
    groups, group_names = view.texts("pg_name")
    kinds = view.trace.column("comm_type", -1).astype(np.int64)
    keys = (view.trace.types[comm] * (kinds.max(initial=0) + 2) + kinds[comm] + 1) * (
        len(group_names) + 1
    ) + groups[comm]
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    numbers = []
    for row in comm[first].tolist():
        group = group_names[groups[row]] if groups[row] >= 0 else ""
        label = f"{comm_name(view, row)} {group}".strip()
        if label not in known:
            known[label] = len(texts)
            texts.append(label)
        numbers.append(known[label])
    operator[comm] = np.array(numbers or [0], operator.dtype)[which]
    return RankEvents(
        view.rank,
        view.start,
        view.end,
        view.own,
        view.kind,
        names,
        texts,
        operator,
        view.parent,
        view.background,
        causes_of(view, times),
    )


@dataclass(frozen=True)
class RankEnd:
    """A rank's last work: its row (-1: none) and when it ended; `rows` is how many the rank has."""

    rank: int
    row: int
    time: int
    rows: int


def end_of(own: RankEvents) -> RankEnd:
    """The work of a rank that ends last; of equal ones what started last."""
    rows = np.flatnonzero(own.ran & ~own.background)
    if not len(rows):
        rows = np.flatnonzero(own.ran)
    if not len(rows):
        return RankEnd(own.rank, -1, 0, len(own.start))
    latest = int(own.end[rows].max())
    ending = rows[own.end[rows] == latest]
    return RankEnd(own.rank, int(ending[np.argmax(own.start[ending])]), latest, len(own.start))
