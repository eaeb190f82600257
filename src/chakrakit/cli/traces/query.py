"""`chakra query`: SQL over traces."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from chakrakit.cli.shared import (
    console,
    json_option,
    path_argument,
    print_json,
    print_table,
    workers_of,
    workers_options,
)

SHOWN = 100


class QueryResult(msgspec.Struct):
    """The rows of a query."""

    columns: list[str]
    types: list[str]
    """Arrow's names of the columns' types."""
    rows: list[list[Any]]
    truncated: bool
    """Whether there were more rows than the limit."""


@click.command(name="query")
@path_argument
@click.argument("sql", metavar="SQL")
@workers_options
@json_option
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"At most N rows ({SHOWN} for people, all with --json).",
)
def command(
    path: str, sql: str, as_json: bool, limit: int | None, engine: str | None, jobs: int | None
) -> None:
    """Ask with SQL (DuckDB): one SELECT over the tables below.

    \b
    nodes        rank, row, id, name, type, start_ns, duration_ns, end_ns, every attribute
    edges        rank, src, dst (node ids), kind, form, lag_ns, ctrl
    collectives  instance, "group", seq, collective, comm_size, ranks, arrival_ns, transfer_ns
    calls        a row a rank and collective: instance, "group", seq, rank, id, start_ns, end_ns
    messages     a row a send or receive: src, dst, tag, nth, rank, id, is_send, comm_size
    ranks        rank, body, scale, groups, peers, timing
    groups       "group", rank

    \b
    chakra query trace "SELECT type, count(*) FROM nodes GROUP BY type"
    """
    from chakrakit.trace.query import query, rows_of

    if limit is None and not as_json:
        limit = SHOWN
    table = query(path, sql, None if limit is None else limit + 1, workers_of(engine, jobs))
    more = limit is not None and table.num_rows > limit
    rows = rows_of(table.slice(0, limit) if more else table)
    if as_json:
        kinds = [str(k) for k in table.schema.types]
        return print_json(QueryResult(table.column_names, kinds, rows, more))
    print_table(table.column_names, ([_shown(v) for v in row] for row in rows))
    if more:
        console().print(f"first {limit:,} rows; --limit shows more")
    return None


def _shown(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        return "" if value is None else str(value)
    return f"{value:,}"
