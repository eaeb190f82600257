"""`chakra export`: a (selected) graph, or a run's timeline, for other tools."""

from __future__ import annotations

import click

from chakrakit.cli.shared import json_option, path_argument, print_json


@click.command(name="export")
@path_argument
@click.argument("target", metavar="OUT")
@click.option("--rank", type=int, metavar="R", help="The rank to export (default: the lowest).")
@click.option("--around", type=int, metavar="ID", help="Only what is near the node with this id.")
@click.option(
    "--hops",
    type=click.IntRange(min=0),
    default=2,
    show_default=True,
    metavar="N",
    help="How many edges away still is near.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="TYPE",
    help="Only nodes of this type, such as COMM_COLL_NODE; may be repeated.",
)
@click.option("--name", metavar="REGEX", help="Only nodes in whose name this is found.")
@click.option(
    "--perfetto", is_flag=True, help="A run's timeline in Perfetto's own format (.pftrace)."
)
@click.option("--chrome", is_flag=True, help="A run's timeline as Chrome JSON (.json).")
@click.option("--no-flows", is_flag=True, help="A timeline without arrows.")
@click.option(
    "--node-size",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Ranks in a machine, to group them in a timeline.",
)
@click.option(
    "--every-rank",
    is_flag=True,
    help="Draw every rank of more than 64, also those that do what another does at the same times.",
)
@json_option
def command(
    path: str,
    target: str,
    rank: int | None,
    around: int | None,
    hops: int,
    types: tuple[str, ...],
    name: str | None,
    perfetto: bool,
    chrome: bool,
    no_flows: bool,
    node_size: int,
    every_rank: bool,
    as_json: bool,
) -> None:
    """Write the graph of one rank to OUT.graphml or OUT.dot, or a run's timeline.

    All edges between the chosen nodes are kept, with their kinds: a data and a control edge between
    the same two nodes are two edges.

    OUT.pftrace and OUT.json (also .gz) are timelines of the ranks, to be opened at ui.perfetto.dev:
    slices in ns on serial tracks, arrows for dependencies, counters for memory and links.
    """
    from chakrakit.api import export
    from chakrakit.trace.storage import read

    timeline = perfetto or chrome or target.removesuffix(".gz").endswith((".pftrace", ".json"))
    traces = path if timeline else read(path)
    if not isinstance(traces, str) and rank is None and len(traces) > 1:
        first = traces.ranks[0]
        click.echo(f"note: rank {first} of {len(traces):,}; --rank chooses another", err=True)
    found = export(
        traces,
        target,
        rank=rank,
        around=around,
        hops=hops,
        types=types,
        name=name,
        perfetto=perfetto,
        chrome=chrome,
        flows=not no_flows,
        node_size=node_size,
        every_rank=every_rank,
    )
    if as_json:
        return print_json(found)
    if found.dangling:
        click.echo(
            f"note: {found.dangling:,} dependencies on nodes that do not exist are left out",
            err=True,
        )
    if found.folded:
        click.echo(
            f"note: {found.folded:,} ranks do what another does at the same times, which is drawn for "
            "them; --every-rank draws all",
            err=True,
        )
    what = "slices and {} arrows" if timeline else "nodes and {} edges"
    said = f"{found.nodes:,} {what.format(f'{found.edges:,}')} to {target}"
    click.echo(said + ("; open it at ui.perfetto.dev" if timeline else ""), err=True)
    return None
