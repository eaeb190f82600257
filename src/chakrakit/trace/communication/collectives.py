"""Communication as tables: one row per call, per collective and per end of a message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from chakrakit.arrays import I64
from chakrakit.trace.communication.communication import Communication
from chakrakit.trace.communication.matching import Matching, match
from chakrakit.trace.model import CollectiveType

_C = CollectiveType
EQUAL_SIZES = frozenset({_C.ALL_REDUCE, _C.ALL_GATHER, _C.REDUCE_SCATTER, _C.REDUCE_SCATTER_BLOCK})
"""Collectives whose members give one size; those of an all-to-all may differ."""
ROOTED = frozenset({_C.REDUCE, _C.GATHER, _C.SCATTER, _C.BROADCAST})
"""Collectives from or to one member, which `comm_src` names."""


@dataclass(frozen=True, eq=False, repr=False)
class Collectives:
    """The tables of a TraceSet's communication.

    `calls`: one row per collective node of a rank: instance, group, seq, recorded (whether seq was recorded),
    rank, row, id, comm_type, comm_size, and for timed traces start_ns and end_ns.
    `instances`: one row per collective: group, seq, comm_type, comm_size (of the first rank), ranks (how many
    take part), and for timed traces arrival_ns (the last), end_ns, transfer_ns = end - last arrival.
    `messages`: one row per send or receive of a rank: message (the same for both ends), src, dst, tag, nth,
    rank, row, id, is_send, comm_size, start_ns, end_ns.
    """

    calls: pa.Table
    instances: pa.Table
    messages: pa.Table

    def __repr__(self) -> str:
        parts = [f"{name} {len(table):,} rows" for name, table in vars(self).items()]
        return f"Collectives({', '.join(parts)})"


TimesOf = Callable[[int], tuple[I64, I64]]
"""A rank → starts and ends of its rows, in ns."""


def tables_of(communication: Communication, times: TimesOf | None = None) -> Collectives:
    """The communication of every rank; its times are those of the nodes unless `times` has others."""
    matching = match(communication)
    is_collective = matching.instance >= 0
    calls = _calls(matching, np.flatnonzero(is_collective))
    messages = _messages(matching, np.flatnonzero(~is_collective))
    if times is not None:
        calls, messages = _retimed(calls, times), _retimed(messages, times)
    return Collectives(calls, _instances(calls), messages)


def _retimed(table: pa.Table, times: TimesOf) -> pa.Table:
    rank, row = (table.column(name).to_numpy() for name in ("rank", "row"))
    start_and_end = np.zeros((2, len(rank)), np.int64)
    order = np.argsort(rank, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(rank[order])) + 1):
        if len(part):
            start, end = times(int(rank[part[0]]))
            start_and_end[:, part] = start[row[part]], end[row[part]]
    for name, values in zip(("start_ns", "end_ns"), start_and_end, strict=True):
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    return table


_BOTH = {"row": "row", "id": "id", "comm_size": "size", "start_ns": "start_ns", "end_ns": "end_ns"}
"""Columns of both tables, and what Calls calls them."""


def _common(matching: Matching, at: I64) -> dict[str, object]:
    rank = np.repeat(np.array(matching.communication.ranks, np.int64), np.diff(matching.offset))
    columns = {name: matching.column(field)[at] for name, field in _BOTH.items()}
    return {"rank": rank[at], **columns}


def _calls(matching: Matching, at: I64) -> pa.Table:
    names = pa.array([g.name for g in matching.communication.groups], pa.string())
    return pa.table(
        {
            "instance": matching.instance[at],
            "group": names.take(pa.array(matching.group[at])),
            "seq": matching.column("number")[at],
            "recorded": matching.column("recorded")[at],
            "comm_type": matching.column("kind")[at],
            **_common(matching, at),
        }
    )


def _instances(calls: pa.Table) -> pa.Table:
    """One row per instance."""
    ordered = calls.sort_by([("instance", "ascending"), ("rank", "ascending")])
    instance = ordered.column("instance").to_numpy()
    first = np.flatnonzero(np.r_[True, instance[1:] != instance[:-1]][: len(instance)])
    head = ordered.take(pa.array(first))
    arrival, end = (_last(ordered, name, first) for name in ("start_ns", "end_ns"))
    return pa.table(
        {
            **{c: head.column(c) for c in ("instance", "group", "seq", "comm_type", "comm_size")},
            "ranks": np.diff(np.r_[first, len(instance)]),
            "arrival_ns": arrival,
            "end_ns": end,
            "transfer_ns": end - arrival,
        }
    )


def _last(table: pa.Table, name: str, first: I64) -> I64:
    values = table.column(name).to_numpy()
    return np.asarray(np.maximum.reduceat(values, first) if len(first) else values, np.int64)


def _messages(matching: Matching, at: I64) -> pa.Table:
    places = range(len(matching.communication.ranks))
    ends = [matching.communication.ends(i) for i in places]
    none = np.zeros(0, np.int64)
    src, dst = (
        (np.concatenate([*side, none]) for side in zip(*ends, strict=True))
        if ends
        else (none, none)
    )
    both = np.where(matching.partner >= 0, matching.partner, np.arange(len(matching.partner)))
    return pa.table(
        {
            "message": np.unique(np.minimum(both, np.arange(len(both)))[at], return_inverse=True)[
                1
            ],
            "src": src[at],
            "dst": dst[at],
            "tag": matching.column("tag")[at],
            "nth": matching.column("number")[at],
            "is_send": matching.column("is_send")[at],
            **_common(matching, at),
        }
    )
