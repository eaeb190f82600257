"""Tables of many ranks for SQL, made rank by rank while DuckDB reads them, in this process or on workers.

A set in which every rank has its own body may be far larger than memory. DuckDB says which columns and rows
it needs; each rank's share of those is made when its turn comes, and then forgotten. This is a file by itself
because it imports pyarrow.dataset, and with it pandas: 0.2 s that only streamed queries need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from chakrakit.parallel import Workers, spread
from chakrakit.trace.communication import Body
from chakrakit.trace.model import Trace
from chakrakit.trace.query.sql_tables import as_text
from chakrakit.trace.sets import Run, TraceSet

TableOf = Callable[[Trace], pa.Table]
_Task = tuple[int, Body]


def can_stream(traces: TraceSet) -> bool:
    """Whether every rank has its own body, unchanged, with its times in the nodes."""
    bindings = traces.bindings.values()
    unshared = len({b.body for b in bindings}) == len(bindings) > 1
    timed = isinstance(traces, Run) and traces.times is not None
    return unshared and not timed and all(b.is_plain for b in bindings)


class StreamedTable(ds.InMemoryDataset):  # type: ignore[misc]
    """What DuckDB takes for an Arrow dataset: it asks `scanner` for columns and a filter."""

    def __init__(self, traces: TraceSet, table_of: TableOf, workers: Workers | None) -> None:
        self._source = _Source(traces, table_of, workers)
        super().__init__(self._source.schema.empty_table())

    def scanner(
        self, columns: list[str] | None = None, filter: ds.Expression | None = None, **_: Any
    ) -> _Scan:
        """One reading of the table."""
        return _Scan(self._source, columns, filter)


class _Source:
    """The ranks of a set as pieces of one table, with the columns of all of them."""

    def __init__(self, traces: TraceSet, table_of: TableOf, workers: Workers | None) -> None:
        self._traces, self._workers = traces, workers
        self._table_of = table_of
        schemas = list(self._spread(partial(_schema, table_of=table_of)))
        self.schema, self._mixed = _united(schemas)

    def _spread(self, function: Callable[[_Task], Any]) -> Iterator[Any]:
        body = self._traces.body_at if self._workers is None else self._traces.reader_of
        tasks = ((rank, body(b.body)) for rank, b in self._traces.bindings.items())
        return spread(function, tasks, self._workers)

    def pieces(
        self, columns: list[str] | None, row_filter: ds.Expression | None
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The schema of some columns, and their rows rank by rank."""
        schema = (
            self.schema if columns is None else pa.schema([self.schema.field(c) for c in columns])
        )
        cut = partial(
            _piece,
            table_of=self._table_of,
            schema=self.schema,
            mixed=self._mixed,
            columns=schema.names,
            row_filter=row_filter,
        )
        return schema, (b for table in self._spread(cut) for b in table.to_batches())


@dataclass
class _Scan:
    source: _Source
    columns: list[str] | None
    row_filter: ds.Expression | None

    def to_reader(self) -> pa.RecordBatchReader:
        """What DuckDB reads."""
        return pa.RecordBatchReader.from_batches(*self.source.pieces(self.columns, self.row_filter))


def _table(task: _Task, table_of: TableOf) -> pa.Table:
    rank, body = task
    table = table_of(body if isinstance(body, Trace) else body())
    return table.add_column(0, "rank", pa.array(np.full(len(table), rank, np.int64)))


def _schema(task: _Task, table_of: TableOf) -> pa.Schema:
    return _table(task, table_of).schema.remove_metadata()


def _piece(
    task: _Task,
    table_of: TableOf,
    schema: pa.Schema,
    mixed: frozenset[str],
    columns: list[str],
    row_filter: ds.Expression | None,
) -> pa.Table:
    """A rank's rows as the whole table has them: only what was asked for."""
    table = _table(task, table_of)
    filter_text = str(row_filter)  # names every column that the filter looks at
    used = [f for f in schema if f.name in columns or f.name in filter_text]
    whole = pa.table({f.name: _column(table, f, f.name in mixed) for f in used})
    if row_filter is not None:
        whole = whole.filter(row_filter)
    return whole.select(columns).combine_chunks()


def _column(table: pa.Table, field: pa.Field, mixed: bool) -> pa.Array | pa.ChunkedArray:
    if field.name not in table.column_names:
        return pa.nulls(len(table), field.type)
    values = table.column(field.name)
    return as_text(values) if mixed else values.cast(field.type)


def _united(schemas: list[pa.Schema]) -> tuple[pa.Schema, frozenset[str]]:
    """The columns of all; names of those that have different types, and so become text."""
    types: dict[str, set[pa.DataType]] = {}
    for schema in schemas:
        for field in schema:
            types.setdefault(field.name, set()).add(_plain(field.type))
    mixed = frozenset(n for n, kinds in types.items() if len(kinds) > 1)
    return pa.schema([(n, pa.string() if n in mixed else k.pop()) for n, k in types.items()]), mixed


def _plain(kind: pa.DataType) -> pa.DataType:
    """Dictionaries differ from rank to rank: a stream has their values."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind
