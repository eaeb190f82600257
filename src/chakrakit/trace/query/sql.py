"""SQL over traces with DuckDB: nodes, edges, communication, ranks, groups, counters; for reading only.

Bodies are Arrow tables that DuckDB reads where they are. What a rank makes of its body (its groups, peers,
scale and times) is a view that joins the two, so that a folded set of many ranks stays folded in memory.
A set in which nothing is shared is streamed instead (`sql_stream.py`).
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from chakrakit.errors import ConfigError, MissingExtra
from chakrakit.trace.files import Source
from chakrakit.trace.query import sql_tables
from chakrakit.trace.query.sql_tables import quoted
from chakrakit.trace.sets import Run, TraceSet
from chakrakit.trace.storage import read

if TYPE_CHECKING:
    import duckdb

    from chakrakit.parallel import Workers

TABLES = ("nodes", "edges", "collectives", "calls", "messages", "ranks", "groups")
_OF_BODY = {"nodes": sql_tables.body_nodes, "edges": sql_tables.body_edges}
_CACHE = 256 << 20
"""Bytes of bodies kept while a query reads them: a set may be far larger than memory."""


def query(
    traces: TraceSet | Source,
    sql: str,
    limit: int | None = None,
    workers: Workers | None = None,
    seconds: float | None = None,
) -> pa.Table:
    """The rows one SELECT gives; with `limit`, at most that many; with `seconds`, an error after these.

    Only the tables that the text mentions are made. The statement cannot reach files, the network or
    DuckDB's settings. With `workers`, ranks are read there, one per task.
    """
    duckdb = _duckdb()
    trace_set = traces if isinstance(traces, TraceSet) else _opened(traces)
    with duckdb.connect(":memory:") as connection:
        try:
            _check_is_select(duckdb, connection, sql)
            _make_tables(connection, trace_set, sql, workers)
            _lock(connection)
            with _within(connection, seconds):
                return _heeding_signals(connection, partial(_fetched, connection, sql, limit))
        except duckdb.Error as error:
            tables = (*TABLES, *_counters(trace_set))
            raise ConfigError(_explained(connection, error, sql, tables)) from None


def query_table(
    table: pa.Table, sql: str, limit: int | None = None, seconds: float | None = None
) -> pa.Table:
    """The same of one table of any columns, which is called `rows`."""
    duckdb = _duckdb()
    with duckdb.connect(":memory:") as connection:
        try:
            _check_is_select(duckdb, connection, sql)
            connection.register("rows", table)
            _lock(connection)
            with _within(connection, seconds):
                return _heeding_signals(connection, partial(_fetched, connection, sql, limit))
        except duckdb.Error as error:
            raise ConfigError(_explained(connection, error, sql, ("rows",))) from None


@contextlib.contextmanager
def _within(connection: duckdb.DuckDBPyConnection, seconds: float | None) -> Iterator[None]:
    """Ends what the connection computes after so many seconds; None lets it compute for ever."""
    if seconds is None:
        yield
        return
    late = threading.Event()

    def stop() -> None:
        late.set()
        connection.interrupt()

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception:
        if late.is_set():
            raise ConfigError(
                f"no answer within {seconds:g} s; ask for less: fewer tables, fewer ranks, a WHERE"
            ) from None
        raise
    finally:
        timer.cancel()


def _opened(path: Source) -> TraceSet:
    traces = read(path)
    traces.cache_bytes = _CACHE
    return traces


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


def _mentioned(sql: str, tables: Sequence[str] = TABLES) -> list[str]:
    words = {w.lower() for w in re.findall(r"\w+", sql)}
    whole = words & {"information_schema", "show", "describe", "duckdb_tables", "duckdb_columns"}
    return [t for t in tables if whole or t in words]


def _counters(traces: TraceSet) -> list[str]:
    """The names of a run's counters that no table of traces has."""
    return [n for n in traces.counters if n not in TABLES] if isinstance(traces, Run) else []


def _make_tables(
    connection: duckdb.DuckDBPyConnection, traces: TraceSet, sql: str, workers: Workers | None
) -> None:
    # Only here: pyarrow.dataset imports pandas, which takes longer than most commands need to start.
    from chakrakit.trace.query.sql_stream import StreamedTable, can_stream

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
    if isinstance(traces, Run):
        for name in _mentioned(sql, _counters(traces)):
            connection.register(name, traces.counters[name])


def _make_nodes(connection: duckdb.DuckDBPyConnection, traces: TraceSet) -> None:
    table = sql_tables.nodes(traces)
    connection.register("_nodes", table)
    times = ""
    if isinstance(traces, Run) and traces.times is not None:
        connection.register("_times", sql_tables.times(traces))
        times = 'JOIN _times t ON t.timing = r.timing AND t."row" = n."row"'
    select_list = ", ".join(_expressions(traces, table.column_names, bool(times)))
    connection.execute(
        f"CREATE VIEW nodes AS SELECT r.rank, {select_list} "
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
    bindings, expressions = traces.bindings.values(), {}
    if any(b.groups for b in bindings):
        expressions["pg_name"] = _mapped("r.groups", "n.pg_name")
    if any(b.peers for b in bindings):
        expressions |= {end: _mapped("r.peers", f"n.{end}") for end in ("comm_src", "comm_dst")}
    if any(b.scale != 1.0 for b in bindings):
        for name in ("num_ops", "tensor_size", "duration_ns"):
            expressions[name] = _scaled(name)
        expressions["end_ns"] = f"n.start_ns + {expressions['duration_ns']}"
        expressions["duration_micros"] = f"({expressions['duration_ns']} // 1000)::UBIGINT"
    if timed:
        expressions |= {"start_ns": "t.start_ns", "end_ns": "t.end_ns"}
        expressions["duration_ns"] = "t.end_ns - t.start_ns"
    return expressions


def _mapped(table: str, column: str) -> str:
    return f"coalesce(list_extract(map_extract({table}, {column}), 1), {column})"


def _scaled(name: str) -> str:
    # round_even: as numpy's rint, which binds a rank's own trace.
    scaled = f"round_even(n.{name} * r.scale, 0)::BIGINT"
    return f"CASE WHEN n.type = 'COMP_NODE' THEN {scaled} ELSE n.{name} END"


def _heeding_signals(
    connection: duckdb.DuckDBPyConnection, ask: Callable[[], pa.Table]
) -> pa.Table:
    """The answer, asked for in a thread of its own: DuckDB may look at no signal for as long as it works."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask)
        try:
            return answer.result()
        finally:
            if not answer.done():
                connection.interrupt()


def _fetched(connection: duckdb.DuckDBPyConnection, sql: str, limit: int | None) -> pa.Table:
    relation: Any = connection.sql(sql)
    # DuckDB 2 has a new name for what 1 called fetch_arrow_reader.
    reader = (getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader)()
    batches, remaining = [], limit
    for batch in reader:
        batches.append(batch if remaining is None else batch.slice(0, remaining))
        remaining = None if remaining is None else remaining - len(batches[-1])
        if remaining is not None and remaining <= 0:
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


def _explained(
    connection: duckdb.DuckDBPyConnection, error: Exception, sql: str, tables: Sequence[str]
) -> str:
    """DuckDB's first line, and what there is to ask for."""
    line = next((s for s in str(error).splitlines() if s.strip()), type(error).__name__)
    parts = [line.strip().rstrip("."), f"tables: {', '.join(tables)}"]
    for name in _mentioned(sql, tables):
        columns = sql_tables.column_names(connection, name)
        if columns:
            parts.append(f"columns of {name}: {', '.join(columns)}")
    return "; ".join(parts)


def rows_of(table: pa.Table) -> list[list[Any]]:
    """The rows as Python values."""
    columns = [c.to_pylist() for c in table.columns]
    return [list(row) for row in zip(*columns, strict=True)] if columns else []
