"""Communication across ranks: one row per collective and per message, matched between its members.

A collective is known by (group, sequence number). Where the traces record the number (`comm_seq`), that
is it; else it is the place in the order in which the rank issues that group's collectives. Messages are
matched by (source, destination, tag) and order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chakrakit.arrays import I64, Mask
from chakrakit.parallel import Workers, spread
from chakrakit.trace.communication.binding import Binding, Body, bind
from chakrakit.trace.communication.groups import WORLD, Groups
from chakrakit.trace.model import CollectiveType, NodeType, Trace
from chakrakit.trace.placement import issued

_C = CollectiveType
EQUAL_SIZES = frozenset({_C.ALL_REDUCE, _C.ALL_GATHER, _C.REDUCE_SCATTER, _C.REDUCE_SCATTER_BLOCK})
"""Collectives whose members give one size; those of an all-to-all may differ."""
ROOTED = frozenset({_C.REDUCE, _C.GATHER, _C.SCATTER, _C.BROADCAST})
"""Collectives from or to one member, which `comm_src` names."""
UNKNOWN = -1
"""Stands for a type, size or end that the trace does not say."""


@dataclass(frozen=True, eq=False)
class Collectives:
    """The tables of a TraceSet's communication.

    `calls`: one row per collective node of a rank: instance, group, seq, rank, row, id, comm_type,
    comm_size, recorded (whether seq was recorded), and for timed traces start_ns and end_ns.
    `instances`: one row per collective: group, seq, comm_type, comm_size (of the first rank), ranks (how many
    take part), and for timed traces arrival_ns (the last), end_ns, transfer_ns = end - last arrival.
    `messages`: a row a send or receive of a rank: src, dst, tag, nth, rank, row, id, is_send, comm_size.
    """

    calls: pa.Table
    instances: pa.Table
    messages: pa.Table


class RankedBodies(Protocol):
    """What matching needs of a set of traces: its bodies, who runs them, and the groups."""

    groups: Groups

    def body_at(self, number: int) -> Trace:
        """A body, read if need be."""

    def reader_of(self, number: int) -> Body:
        """A body as something that travels to a worker."""

    def shares(self) -> list[tuple[int, dict[int, Binding]]]:
        """Each body in use, and the ranks that run it."""


def match(traces: RankedBodies, workers: Workers | None = None) -> Collectives:
    """All communication of the set; with `workers`, bodies are read there, one per task."""
    known = Groups({n: traces.groups[n] for n in WORLD if n in traces.groups})
    body = traces.body_at if workers is None else traces.reader_of
    tasks = ((body(number), ranks) for number, ranks in traces.shares())
    found: dict[int, tuple[pa.Table, pa.Table]] = {}
    for part in spread(partial(_of_body, known=known), tasks, workers):
        found |= part
    calls, messages = ([found[rank][i] for rank in sorted(found)] for i in (0, 1))
    table = _number_instances(pa.concat_tables(calls)) if calls else _calls(0, _empty(), Groups())
    return Collectives(
        table, _instances(table), pa.concat_tables(messages) if messages else _messages(0, _empty())
    )


def _of_body(
    task: tuple[Body, Mapping[int, Binding]], known: Groups
) -> dict[int, tuple[pa.Table, pa.Table]]:
    """The calls and messages of each rank that runs a body."""
    body, ranks = task
    program = body if isinstance(body, Trace) else body()
    return {rank: _of_rank(rank, bind(program, b), known) for rank, b in ranks.items()}


def _of_rank(rank: int, trace: Trace, known: Groups) -> tuple[pa.Table, pa.Table]:
    return _calls(rank, trace, known), _messages(rank, trace)


def _empty() -> Trace:
    return Trace.from_columns({"name": []})


def group_names(trace: Trace, rows: I64) -> pa.Array:
    """The group each row names; "" where it names none."""
    if "pg_name" not in trace.table.column_names:
        return pa.array([""] * len(rows), pa.string())
    names = trace.table.column("pg_name").take(pa.array(rows)).fill_null("").combine_chunks()
    return names.cast(pa.string())


def canonical_group(name: str, groups: Groups) -> str:
    """The one name of a group: all that mean all ranks become ""."""
    return "" if name in WORLD and name not in groups else name


def _canonical(names: pa.Array, groups: Groups) -> pa.Array:
    coded = names.dictionary_encode()
    renamed = [canonical_group(n, groups) for n in coded.dictionary.to_pylist()]
    return pa.array(renamed, pa.string()).take(coded.indices)


def _calls(rank: int, trace: Trace, known: Groups) -> pa.Table:
    rows = issued(trace, np.flatnonzero(trace.is_type(NodeType.COMM_COLL_NODE)))
    groups = _canonical(group_names(trace, rows), known)
    codes = groups.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    seq, recorded = numbered_calls(trace, rows, codes)
    return pa.table(
        {
            "group": groups,
            "seq": seq,
            "recorded": recorded,
            "rank": np.full(len(rows), rank, np.int64),
            "row": rows,
            "id": trace.ids[rows],
            "comm_type": trace.column("comm_type", UNKNOWN)[rows].astype(np.int64),
            "comm_size": trace.column("comm_size", UNKNOWN)[rows].astype(np.int64),
            "start_ns": trace.start_ns[rows],
            "end_ns": trace.end_ns[rows],
        }
    )


def numbered_calls(trace: Trace, rows: I64, codes: NDArray[Any]) -> tuple[I64, Mask]:
    """Sequence numbers of calls in the order of issue, and which of them were recorded.

    `codes` says which calls are of one group; a group's numbers are all recorded or all counted.
    """
    given = trace.has("comm_seq")[rows]
    whole = ~np.isin(codes, codes[~given])
    recorded = trace.column("comm_seq", 0)[rows].astype(np.int64)
    return np.where(whole, recorded, nth_of_kind(codes)), whole


def nth_of_kind(codes: NDArray[Any]) -> I64:
    """For each entry, how many equal ones came before it."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(codes) else order
    starts = np.repeat(first, np.diff(np.r_[first, len(codes)]))
    nth = np.empty(len(codes), np.int64)
    nth[order] = np.arange(len(codes)) - starts
    return nth


def _number_instances(calls: pa.Table) -> pa.Table:
    """Adds `instance`: the same number for the calls that belong together."""
    groups = calls.column("group").combine_chunks().dictionary_encode()
    codes = groups.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    keys = np.stack([codes, calls.column("seq").to_numpy()])
    _, instance = np.unique(keys, axis=1, return_inverse=True)
    return calls.add_column(0, "instance", pa.array(instance.reshape(-1)))


def _instances(calls: pa.Table) -> pa.Table:
    """One row per instance."""
    if "instance" not in calls.column_names or calls.num_rows == 0:
        calls = (
            calls.add_column(0, "instance", pa.array(np.zeros(calls.num_rows, np.int64)))
            if "instance" not in calls.column_names
            else calls
        )
    ordered = calls.sort_by([("instance", "ascending"), ("rank", "ascending")])
    instance = ordered.column("instance").to_numpy()
    first = (
        np.flatnonzero(np.r_[True, instance[1:] != instance[:-1]]) if len(instance) else instance
    )
    head = ordered.take(pa.array(first.astype(np.int64)))
    arrival = _reduce(np.maximum, ordered, "start_ns", first)
    end = _reduce(np.maximum, ordered, "end_ns", first)
    return pa.table(
        {
            **{c: head.column(c) for c in ("instance", "group", "seq", "comm_type", "comm_size")},
            "ranks": np.diff(np.r_[first, len(instance)]).astype(np.int64),
            "arrival_ns": arrival,
            "end_ns": end,
            "transfer_ns": end - arrival,
        }
    )


def _reduce(how: np.ufunc, table: pa.Table, name: str, first: NDArray[Any]) -> I64:
    values = table.column(name).to_numpy()
    if len(first) == 0:
        return np.zeros(0, np.int64)
    reduced: I64 = how.reduceat(values, first)
    return reduced


def _messages(rank: int, trace: Trace) -> pa.Table:
    chosen = trace.is_type(NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE)
    rows = issued(trace, np.flatnonzero(chosen))
    is_send = trace.types[rows] == NodeType.COMM_SEND_NODE
    src = _end(trace, "comm_src", rows, is_send, rank)
    dst = _end(trace, "comm_dst", rows, ~is_send, rank)
    tag = trace.column("comm_tag", 0)[rows].astype(np.int64)
    _, kind = np.unique(np.stack([src, dst, tag, is_send]), axis=1, return_inverse=True)
    return pa.table(
        {
            "src": src,
            "dst": dst,
            "tag": tag,
            "nth": nth_of_kind(kind.reshape(-1)),
            "rank": np.full(len(rows), rank, np.int64),
            "row": rows,
            "id": trace.ids[rows],
            "is_send": is_send,
            "comm_size": trace.column("comm_size", UNKNOWN)[rows].astype(np.int64),
            "start_ns": trace.start_ns[rows],
            "end_ns": trace.end_ns[rows],
        }
    )


def _end(trace: Trace, name: str, rows: I64, own: Mask, rank: int) -> I64:
    """One end of each message; a rank's own side is the rank where the trace does not say."""
    said = trace.column(name, UNKNOWN)[rows].astype(np.int64)
    return np.where((said == UNKNOWN) & own, rank, said)
