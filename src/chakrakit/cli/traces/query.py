"""`chakra query`: SQL over traces."""

from __future__ import annotations

import click

from chakrakit.cli.shared import (
    clean,
    console,
    json_option,
    path_argument,
    print_json,
    print_table,
    workers_options,
)

SHOWN = 100
RECORDS = 10
"""Rows that are shown one below the other, where a table of them would be too wide."""


@click.command(name="query")
@path_argument
@click.argument("sql", metavar="SQL")
@workers_options
@json_option
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"At most N rows (default: {SHOWN}; all with --json).",
)
def command(
    path: str, sql: str, as_json: bool, limit: int | None, engine: str | None, jobs: int | None
) -> None:
    """Ask with SQL (DuckDB): one SELECT over the tables below.

    \b
    nodes        rank, row, id, name, type, start_ns, duration_ns, end_ns, every attribute
    edges        rank, src, dst (node ids), kind, form, lag_ns, ctrl
    collectives  instance, "group", seq, collective, comm_size, ranks, arrival_ns, transfer_ns
    calls        one row per rank and collective: instance, "group", seq, rank, id, start_ns, end_ns
    messages     one row per send or receive: src, dst, tag, nth, rank, id, is_send, comm_size
    ranks        rank, body, scale, groups, peers, timing
    groups       "group", rank

    \b
    chakra query trace "SELECT type, count(*) FROM nodes GROUP BY type"
    """
    from chakrakit.api import query

    asked = limit is not None
    if limit is None and not as_json:
        limit = SHOWN
    result = query(path, sql, limit=limit, engine=engine, jobs=jobs)
    if as_json:
        return print_json(result)
    cells, more = [[_shown(v) for v in row] for row in result.rows], result.truncated
    if _width(result.columns, cells) <= console().width:
        print_table(result.columns, cells)
    else:
        shown = cells if asked else cells[:RECORDS]
        more = more or len(shown) < len(cells)
        limit = len(shown)
        _print_records(result.columns, shown)
    if more:
        console().print(f"first {limit:,} rows; --limit shows more")
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
                out.print(f"  {name:<{widest}}  {clean(text)}", soft_wrap=True)


def _shown(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        return "" if value is None else str(value)
    return f"{value:,}"
