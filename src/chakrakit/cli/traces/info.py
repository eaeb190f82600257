"""`chakra info`: what a trace holds."""

from __future__ import annotations

import click

from chakrakit.cli.shared import console, json_option, path_argument, print_json, print_table


@click.command(name="info")
@path_argument
@json_option
def command(path: str, as_json: bool) -> None:
    """What a trace holds: ranks, nodes, edges, types, groups, communication."""
    from chakrakit.api import info as describe
    from chakrakit.results import counted

    info = describe(path)
    if as_json:
        return print_json(info)
    folded = f" in {counted(info.bodies, 'body', 'bodies')}" if info.bodies < info.ranks else ""
    missing = f" ({len(info.missing_ranks)} not recorded)" if info.missing_ranks else ""
    out = console()
    out.print(
        f"{counted(info.ranks, 'rank')}{folded} of {info.world_size:,}{missing}, "
        f"{counted(info.groups, 'group')}"
    )
    out.print(
        f"{counted(info.nodes, 'node')}, {info.edges.data:,} data and {info.edges.ctrl:,} control edges"
    )
    if info.timed:
        out.print(f"timed: {info.span_ns / 1e6:,.3f} ms from first start to last end")
    print_table(("type", "nodes"), info.types.items())
    if info.communication:
        print_table(
            ("communication", "group", "count", "bytes"),
            ((c.type, c.group or "(all)", c.count, c.bytes) for c in info.communication),
        )
    return None
