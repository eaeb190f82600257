"""The tables `chakra query` shows, as Arrow: a body's nodes and edges once, and what each rank adds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from chakrakit.trace.model import (
    EdgeForm,
    EdgeKind,
    Trace,
    by_name,
    collective_name,
    columns,
    node_type_name,
)
from chakrakit.trace.sets import Run, Times, whole_ns

if TYPE_CHECKING:
    from chakrakit.parallel import Workers
    from chakrakit.trace.sets import TraceSet

ALWAYS_COLUMNS = (
    "is_cpu_op",
    "num_ops",
    "tensor_size",
    "comm_type",
    "comm_size",
    "comm_src",
    "comm_dst",
    "comm_tag",
    "pg_name",
    "stream",
    "tid",
)
"""Attributes that are columns even if no node has them."""


def ranks(traces: TraceSet) -> pa.Table:
    """One row per rank: what it runs, and how."""
    bindings = traces.bindings.values()
    timing = traces.timing if isinstance(traces, Run) else {}
    text, numbers = pa.map_(pa.string(), pa.string()), pa.map_(pa.int64(), pa.int64())
    return pa.table(
        {
            "rank": pa.array(traces.ranks, pa.int64()),
            "body": pa.array([b.body for b in bindings], pa.int64()),
            "scale": pa.array([b.scale for b in bindings], pa.float64()),
            "groups": pa.array([list(b.groups.items()) for b in bindings], text),
            "peers": pa.array([list(b.peers.items()) for b in bindings], numbers),
            "timing": pa.array([timing.get(r) for r in traces.ranks], pa.int64()),
        }
    )


def nodes(traces: TraceSet) -> pa.Table:
    """The nodes of every body in use, with `body` and `row`."""
    return _stacked([_of_body(n, body_nodes(traces.body_at(n))) for n in _used(traces)])


def edges(traces: TraceSet) -> pa.Table:
    """The edges of every body in use, between node ids."""
    return _stacked([_of_body(n, body_edges(traces.body_at(n))) for n in _used(traces)])


def times(run: Run) -> pa.Table:
    """Start and end of each row by timing class, in nanoseconds."""
    for rank in run.ranks:
        run.times_of(rank)  # checks that they fit the body
    return pa.concat_tables(
        [_class_times(n, t, run.tick_ps) for n, t in enumerate(run.times or ())]
    )


def _class_times(number: int, times: Times, tick_ps: int) -> pa.Table:
    start, end = whole_ns(times, tick_ps)
    return pa.table(
        {
            "timing": np.full(len(start), number, np.int64),
            "row": np.arange(len(start), dtype=np.int64),
            "start_ns": start,
            "end_ns": end,
        }
    )


def plain(traces: TraceSet, name: str, workers: Workers | None = None) -> pa.Table:
    """The tables that are the same for every rank: collectives, calls, messages, groups."""
    if name == "groups":
        pairs = [(g, r) for g, members in traces.groups.items() for r in members]
        return pa.table(
            {
                "group": pa.array([g for g, _ in pairs], pa.string()),
                "rank": pa.array([r for _, r in pairs], pa.int64()),
            }
        )
    traces.read_calls(workers)
    matched = traces.collectives
    if name == "messages":
        return matched.messages
    table = matched.instances if name == "collectives" else matched.calls
    return table.append_column("collective", _named(table.column("comm_type"), _collective))


def column_names(connection: Any, table: str) -> list[str]:
    """The columns of a table or view; none if it does not exist."""
    try:
        rows = connection.execute(f"DESCRIBE {table}").fetchall()
    except Exception:
        return []
    return [row[0] for row in rows]


def quoted(name: str) -> str:
    """A name as SQL wants it."""
    return '"' + name.replace('"', '""') + '"'


def _used(traces: TraceSet) -> list[int]:
    return sorted({b.body for b in traces.bindings.values()})


def _of_body(number: int, table: pa.Table) -> pa.Table:
    return table.add_column(0, "body", pa.array(np.full(len(table), number, np.int64)))


def body_nodes(trace: Trace) -> pa.Table:
    """The nodes of one body."""
    table, vocabulary = trace.nodes, by_name()
    by_column: dict[str, Any] = {
        "row": np.arange(len(trace), dtype=np.int64),
        "id": table.column("id"),
        "name": table.column("name"),
        "type": _named(table.column("type"), node_type_name),
        "type_code": table.column("type"),
        "start_ns": trace.start_ns,
        "duration_ns": trace.duration_ns,
        "end_ns": trace.end_ns,
    }
    for name in ALWAYS_COLUMNS:
        kind = columns.STORAGE_TYPES[columns.storage_of_member(vocabulary[name].member)]
        present = name in table.column_names
        by_column[name] = table.column(name) if present else pa.nulls(len(trace), kind)
    by_column["collective"] = _named(by_column["comm_type"], _collective)
    for name in table.column_names:
        if name not in ("id", "name", "type", "duration_ns", *ALWAYS_COLUMNS):
            by_column[_free_name(name, by_column)] = table.column(name)
    return pa.table(by_column)


def _free_name(name: str, used_names: dict[str, Any]) -> str:
    """A name that no column has yet: SQL treats `Foo` and `foo` alike, so the later one gets a number."""
    lower = {t.lower() for t in (*used_names, "rank", "body")}
    candidate, number = name, 2
    while candidate.lower() in lower:
        candidate, number = f"{name}_{number}", number + 1
    return candidate


def _collective(code: int) -> str | None:
    return None if code < 0 else collective_name(code)


def _named(codes: pa.Array | pa.ChunkedArray, name_of: Any) -> pa.Array:
    """Numbers as their names; there are few distinct ones."""
    whole = codes if isinstance(codes, pa.Array) else codes.combine_chunks()
    coded = whole.dictionary_encode()
    names = pa.array([name_of(c) for c in coded.dictionary.to_pylist()], pa.string())
    return pa.DictionaryArray.from_arrays(coded.indices, names).cast(pa.string())


def body_edges(trace: Trace) -> pa.Table:
    """The edges of one body, between node ids."""
    edges, ids = trace.edges, trace.ids
    kinds = pa.array([k.name.lower() for k in EdgeKind])
    forms = pa.array([f.name.lower() for f in EdgeForm])
    return pa.table(
        {
            "src": ids[edges.src],
            "dst": ids[edges.dst],
            "kind": pa.DictionaryArray.from_arrays(pa.array(edges.kind), kinds).cast(pa.string()),
            "form": pa.DictionaryArray.from_arrays(pa.array(edges.form), forms).cast(pa.string()),
            "lag_ns": edges.lag,
            "ctrl": edges.ctrl,
        }
    )


def _stacked(tables: list[pa.Table]) -> pa.Table:
    """One table; a column that has different types in different bodies becomes text."""
    types: dict[str, set[pa.DataType]] = {}
    for table in tables:
        for field in table.schema:
            types.setdefault(field.name, set()).add(field.type)
    mixed = [n for n, kinds in types.items() if len(kinds) > 1]
    for name in mixed:
        tables = [_as_text(t, name) for t in tables]
    return pa.concat_tables(tables, promote_options="default").unify_dictionaries()


def _as_text(table: pa.Table, name: str) -> pa.Table:
    if name not in table.column_names:
        return table
    return table.set_column(table.column_names.index(name), name, as_text(table.column(name)))


def as_text(values: pa.ChunkedArray) -> pa.Array:
    """Every value as its Python text; nulls stay."""
    return pa.array([None if v is None else str(v) for v in values.to_pylist()], pa.string())
