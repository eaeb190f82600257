"""`chakra export`: a (selected) graph for other tools."""

from __future__ import annotations

import click

from chakrakit.cli.output import json_option, path_argument, print_json


@click.command(name="export")
@path_argument
@click.argument("target", metavar="OUT")
@click.option("--rank", type=int, metavar="R", help="The rank to export (default: the lowest).")
@click.option("--around", type=int, metavar="ID", help="Only what is near the node with this id.")
@click.option("--hops", type=click.IntRange(min=0), default=2, show_default=True, metavar="N",
              help="How many edges away still is near.")  # fmt: skip
@click.option("--type", "types", multiple=True, metavar="TYPE",
              help="Only nodes of this type, such as COMM_COLL_NODE; may be repeated.")  # fmt: skip
@click.option("--name", metavar="REGEX", help="Only nodes in whose name this is found.")
@json_option
def command(
    path: str,
    target: str,
    rank: int | None,
    around: int | None,
    hops: int,
    types: tuple[str, ...],
    name: str | None,
    as_json: bool,
) -> None:
    """Write the graph of one rank to OUT.graphml or OUT.dot.

    All edges between the chosen nodes are kept, with their kinds: a data and a control edge between
    the same two nodes are two edges.
    """
    from chakrakit.trace.graph_export import Selection, export
    from chakrakit.trace.store import read

    traces = read(path)
    if rank is None:
        rank = traces.ranks[0]
        if len(traces) > 1:
            click.echo(f"note: rank {rank} of {len(traces):,}; --rank chooses another", err=True)
    found = export(traces.trace(rank), target, Selection(around, hops, types, name))
    if as_json:
        return print_json(found)
    if found.dangling:
        click.echo(
            f"note: {found.dangling:,} dependencies on nodes that do not exist are left out",
            err=True,
        )
    click.echo(f"{found.nodes:,} nodes and {found.edges:,} edges to {target}", err=True)
    return None
