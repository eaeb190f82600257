"""SQL over traces with DuckDB: nodes, edges, communication, ranks and groups as tables, for reading only.

Bodies are Arrow tables that DuckDB reads where they are. What a rank makes of its body (its groups, peers,
scale and times) is a view that joins the two, so that a folded set of many ranks stays folded in memory.
A set in which nothing is shared is streamed instead (`sql_stream.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from chakrakit.errors import ConfigError, MissingExtra
from chakrakit.parallel import Workers, spread
from chakrakit.trace.communication import Body
from chakrakit.trace.files import Source
from chakrakit.trace.model import Trace
from chakrakit.trace.query import sql_tables
from chakrakit.trace.query.sql_tables import quoted
from chakrakit.trace.sets import Run, TraceSet
from chakrakit.trace.storage import read

if TYPE_CHECKING:
    import duckdb

    from chakrakit.parallel import Workers


# Tables of many ranks for SQL, made rank by rank while DuckDB reads them, here or on workers.
#
# A set in which every rank has a body of its own may be far larger than memory. DuckDB says which columns
# and rows it needs; each rank's share of those is made when its turn comes, and then forgotten.


TableOf = Callable[[Trace], pa.Table]
_Task = tuple[int, Body]


def can_stream(traces: TraceSet) -> bool:
    """Whether every rank has its own body, as it stands, with its times in it."""
    bindings = traces.bindings.values()
    own = len({b.body for b in bindings}) == len(bindings) > 1
    timed = isinstance(traces, Run) and traces.times is not None
    return own and not timed and all(b.is_plain for b in bindings)


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
        self, columns: list[str] | None, chosen: ds.Expression | None
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
            chosen=chosen,
        )
        return schema, (b for table in self._spread(cut) for b in table.to_batches())


@dataclass
class _Scan:
    source: _Source
    columns: list[str] | None
    chosen: ds.Expression | None

    def to_reader(self) -> pa.RecordBatchReader:
        """What DuckDB reads."""
        return pa.RecordBatchReader.from_batches(*self.source.pieces(self.columns, self.chosen))


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
    chosen: ds.Expression | None,
) -> pa.Table:
    """A rank's rows as the whole table has them: only what was asked for."""
    table = _table(task, table_of)
    told = str(chosen)  # names every column that the filter looks at
    used = [f for f in schema if f.name in columns or f.name in told]
    whole = pa.table({f.name: _column(table, f, f.name in mixed) for f in used})
    if chosen is not None:
        whole = whole.filter(chosen)
    return whole.select(columns).combine_chunks()


def _column(table: pa.Table, field: pa.Field, mixed: bool) -> pa.Array | pa.ChunkedArray:
    from chakrakit.trace.query.sql_tables import as_text

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


TABLES = ("nodes", "edges", "collectives", "calls", "messages", "ranks", "groups")
_OF_BODY = {"nodes": sql_tables.body_nodes, "edges": sql_tables.body_edges}
_CACHE = 256 << 20
"""Bytes of bodies kept while a query reads them: a set may be far larger than memory."""


def query(
    traces: TraceSet | Source, sql: str, limit: int | None = None, workers: Workers | None = None
) -> pa.Table:
    """The rows one SELECT gives; with `limit`, at most that many.

    Only the tables that the text mentions are made. The statement cannot reach files, the network or
    DuckDB's settings. With `workers`, ranks are read there, one per task.
    """
    duckdb = _duckdb()
    found = traces if isinstance(traces, TraceSet) else _opened(traces)
    with duckdb.connect(":memory:") as connection:
        try:
            _check_is_select(duckdb, connection, sql)
            _make_tables(connection, found, sql, workers)
            _lock(connection)
            return _fetched(connection.sql(sql), limit)
        except duckdb.Error as error:
            raise ConfigError(_explained(connection, error, sql)) from None


def _opened(path: Source) -> TraceSet:
    found = read(path)
    found.cache_bytes = _CACHE
    return found


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise MissingExtra("SQL", "sql") from None
    return duckdb


def _check_is_select(duckdb: Any, connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise ConfigError("give one SELECT statement; traces are only read")


def _lock(connection: duckdb.DuckDBPyConnection) -> None:
    for setting in (
        "python_enable_replacements=false",
        "enable_external_access=false",
        "lock_configuration=true",
    ):
        connection.execute(f"SET {setting}")


def _mentioned(sql: str) -> list[str]:
    words = {w.lower() for w in re.findall(r"\w+", sql)}
    whole = words & {"information_schema", "show", "describe", "duckdb_tables", "duckdb_columns"}
    return [t for t in TABLES if whole or t in words]


def _make_tables(
    connection: duckdb.DuckDBPyConnection, traces: TraceSet, sql: str, workers: Workers | None
) -> None:
    # Only here: pyarrow.dataset imports pandas, which takes longer than most commands need to start.

    connection.register("_ranks", sql_tables.ranks(traces))
    for name in _mentioned(sql):
        if name in _OF_BODY and can_stream(traces):
            connection.register(name, StreamedTable(traces, _OF_BODY[name], workers))
        elif name == "nodes":
            _make_nodes(connection, traces)
        elif name == "edges":
            connection.register("_edges", sql_tables.edges(traces))
            connection.execute(
                "CREATE VIEW edges AS SELECT r.rank, e.* EXCLUDE (body) "
                "FROM _ranks r JOIN _edges e ON e.body = r.body"
            )
        elif name == "ranks":
            connection.execute("CREATE VIEW ranks AS SELECT * FROM _ranks")
        else:
            connection.register(name, sql_tables.plain(traces, name, workers))


def _make_nodes(connection: duckdb.DuckDBPyConnection, traces: TraceSet) -> None:
    table = sql_tables.nodes(traces)
    connection.register("_nodes", table)
    times = ""
    if isinstance(traces, Run) and traces.times is not None:
        connection.register("_times", sql_tables.times(traces))
        times = 'JOIN _times t ON t.timing = r.timing AND t."row" = n."row"'
    chosen = ", ".join(_expressions(traces, table.column_names, bool(times)))
    connection.execute(
        f"CREATE VIEW nodes AS SELECT r.rank, {chosen} "
        f"FROM _ranks r JOIN _nodes n ON n.body = r.body {times}"
    )


def _expressions(traces: TraceSet, names: list[str], timed: bool) -> Iterator[str]:
    """Each column of a body as a rank has it."""
    bound = _bound(traces, timed)
    for name in names:
        if name != "body":
            yield f"{bound.get(name, 'n.' + quoted(name))} AS {quoted(name)}"


def _bound(traces: TraceSet, timed: bool) -> dict[str, str]:
    """The columns in which a rank may differ from its body, as SQL."""
    bindings, found = traces.bindings.values(), {}
    if any(b.groups for b in bindings):
        found["pg_name"] = _mapped("r.groups", "n.pg_name")
    if any(b.peers for b in bindings):
        found |= {end: _mapped("r.peers", f"n.{end}") for end in ("comm_src", "comm_dst")}
    if any(b.scale != 1.0 for b in bindings):
        for name in ("num_ops", "tensor_size", "duration_ns"):
            found[name] = _scaled(name)
        found["end_ns"] = f"n.start_ns + {found['duration_ns']}"
        found["duration_micros"] = f"({found['duration_ns']} // 1000)::UBIGINT"
    if timed:
        found |= {"start_ns": "t.start_ns", "end_ns": "t.end_ns"}
        found["duration_ns"] = "t.end_ns - t.start_ns"
    return found


def _mapped(table: str, column: str) -> str:
    return f"coalesce(list_extract(map_extract({table}, {column}), 1), {column})"


def _scaled(name: str) -> str:
    # round_even: as numpy's rint, which binds a rank's own trace.
    scaled = f"round_even(n.{name} * r.scale, 0)::BIGINT"
    return f"CASE WHEN n.type = 'COMP_NODE' THEN {scaled} ELSE n.{name} END"


def _fetched(relation: Any, limit: int | None) -> pa.Table:
    # DuckDB 2 has a new name for what 1 called fetch_arrow_reader.
    reader = (getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader)()
    batches, left = [], limit
    for batch in reader:
        batches.append(batch if left is None else batch.slice(0, left))
        left = None if left is None else left - len(batches[-1])
        if left is not None and left <= 0:
            break
    return _whole_numbers(pa.Table.from_batches(batches, reader.schema))


def _whole_numbers(table: pa.Table) -> pa.Table:
    """Sums of integers come as 128-bit decimals; as 64-bit integers where they fit."""
    for i, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type) and field.type.scale == 0:
            try:
                table = table.set_column(i, field.name, table.column(i).cast(pa.int64()))
            except pa.ArrowInvalid:
                continue
    return table


def _explained(connection: duckdb.DuckDBPyConnection, error: Exception, sql: str) -> str:
    """DuckDB's first line, and what there is to ask for."""
    line = next((s for s in str(error).splitlines() if s.strip()), type(error).__name__)
    parts = [line.strip().rstrip("."), f"tables: {', '.join(TABLES)}"]
    for name in _mentioned(sql):
        columns = sql_tables.column_names(connection, name)
        if columns:
            parts.append(f"columns of {name}: {', '.join(columns)}")
    return "; ".join(parts)


def rows_of(table: pa.Table) -> list[list[Any]]:
    """The rows as Python values."""
    columns = [c.to_pylist() for c in table.columns]
    return [list(row) for row in zip(*columns, strict=True)] if columns else []
