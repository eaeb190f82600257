"""`chakra query`: SQL over traces."""

from __future__ import annotations

import click

from chakrakit.cli.shared import (
    console,
    json_option,
    path_argument,
    print_json,
    print_table,
    workers_options,
)

SHOWN = 100


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
    from chakrakit.api import query

    if limit is None and not as_json:
        limit = SHOWN
    result = query(path, sql, limit=limit, engine=engine, jobs=jobs)
    if as_json:
        return print_json(result)
    print_table(result.columns, ([_shown(v) for v in row] for row in result.rows))
    if result.truncated:
        console().print(f"first {limit:,} rows; --limit shows more")
    return None


def _shown(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        return "" if value is None else str(value)
    return f"{value:,}"
