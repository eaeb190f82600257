"""`query`: SQL over traces."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import WorkerOptions, workers_of
from chakrakit.commands.opening import opened, said
from chakrakit.commands.options import Option, Positional, public
from chakrakit.commands.output import Json, clean, console, print_json, print_table

if TYPE_CHECKING:
    from chakrakit.commands.inputs import Traces
    from chakrakit.commands.results import QueryResult
    from chakrakit.parallel import Workers

SHOWN_ROWS = 100  # about two screens; more would scroll the first rows away
RECORDS = 10
"""Rows that are shown one below the other, where a table of them would be too wide."""


class QueryOptions(WorkerOptions, total=False):
    """Options of `query`."""

    limit: Annotated[
        int | None,
        Option(
            f"At most so many rows; by default all, of which the command shows {SHOWN_ROWS} without --json.",
            None,
            metavar="N",
            least=0,
        ),
    ]


_ALL = 1 << 62
"""More rows than any answer has."""


@public(QueryOptions)
def query(
    traces: Annotated[Traces, Positional("A path, a TraceSet or a Run.", metavar="PATH")],
    sql: Annotated[
        str,
        Positional("One SELECT statement; it cannot reach files or the network.", metavar="SQL"),
    ],
    **options: Unpack[QueryOptions],
) -> QueryResult:
    """Ask with SQL (DuckDB): one SELECT over nodes, edges, collectives, calls, messages, ranks, groups.

    A run's counters (`power`, `telemetry`, …) are tables as well.

    Examples
    --------
    >>> traces = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces
    >>> ck.query(traces, "SELECT count(DISTINCT rank) AS ranks FROM nodes").rows
    [[2]]

    """
    return answered(traces, sql, options["limit"], workers_of(options))


def answered(
    traces: Traces,
    sql: str,
    limit: int | None,
    workers: Workers | None = None,
    seconds: float | None = None,
) -> QueryResult:
    """What `query` gives; with `seconds`, an error where it takes longer."""
    from chakrakit.commands.results import QueryResult
    from chakrakit.trace.codecs import other_table
    from chakrakit.trace.query import query as run_query
    from chakrakit.trace.query import query_table, rows_of

    most = None if limit is None else min(limit, _ALL) + 1
    source = opened(traces) if isinstance(traces, str | os.PathLike) else traces
    other = other_table(Path(source)) if isinstance(source, str) else None
    if other is not None:
        table = query_table(other, sql, most, seconds)
    else:
        table = run_query(source, sql, most, workers, seconds)
    more = limit is not None and table.num_rows > limit
    rows = rows_of(table.slice(0, limit) if more else table)
    return QueryResult(table.column_names, [str(k) for k in table.schema.types], rows, more)


@command_of(query)
def command(
    traces: str, sql: str, *, limit: int | None, json: Json = False, **options: Any
) -> None:
    """Ask with SQL (DuckDB): one SELECT over the tables below.

    \b
    nodes        rank, row, id, name, type, start_ns, duration_ns, end_ns,
                 every attribute
    edges        rank, src, dst (node ids), kind, form, lag_ns, ctrl
    collectives  instance, "group", seq, collective, comm_size, ranks,
                 arrival_ns, transfer_ns
    calls        one row per rank and collective: instance, "group", seq,
                 rank, id, start_ns, end_ns
    messages     one row per send or receive: src, dst, tag, nth, rank, id,
                 is_send, comm_size
    ranks        rank, body, scale, groups, peers, timing
    groups       "group", rank
    …            a run's counters by their names: power, memory, telemetry
    rows         of a Parquet file that is no trace: a sweep's table.parquet,
                 requests.parquet of a run that served

    \b
    chakra query trace "SELECT type, count(*) FROM nodes GROUP BY type"
    chakra query run "SELECT name, sum(duration_ns) FROM nodes GROUP BY 1 LIMIT 9"
    """
    if json:
        return print_json(query(said(traces), sql, limit=limit, **options))
    most = SHOWN_ROWS if limit is None else limit
    result = query(said(traces), sql, limit=most, **options)
    cells, more = [[_cell_text(v) for v in row] for row in result.rows], result.truncated
    if _width(result.columns, cells) <= console().width:
        print_table(result.columns, cells)
    else:
        records = cells[:RECORDS] if limit is None else cells
        more = more or len(records) < len(cells)
        most = len(records)
        _print_records(result.columns, records)
    if more:
        console().print(f"first {most:,} rows; --limit shows more")
    return None


def _width(head: list[str], cells: list[list[str]]) -> int:
    columns = zip(head, *cells, strict=True)
    return sum(1 + max(len(text) for text in column) for column in columns)


def _print_records(head: list[str], cells: list[list[str]]) -> None:
    """Rows that are too wide for a table, one below the other; what a row does not have is left out."""
    widest = max(len(name) for name in head)
    out = console()
    for number, row in enumerate(cells):
        out.print(f"row {number}:")
        for name, text in zip(head, row, strict=True):
            if text:
                out.print(f"  {name:<{widest}}  {clean(text)}")


def _cell_text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        return "" if value is None else str(value)
    return f"{value:,}"
