"""`chakra export`: a (selected) graph, or a run's timeline, for other tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from chakrakit.cli.shared import json_option, path_argument, print_json

if TYPE_CHECKING:
    from chakrakit.trace.sets import TraceSet


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
    help="How many edges away counts as near.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="TYPE",
    help="Only nodes of this type, such as COMM_COLL_NODE; may be repeated.",
)
@click.option("--name", metavar="REGEX", help="Only nodes whose name contains a match.")
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
    help="Ranks per node, to group them in a timeline.",
)
@click.option(
    "--every-rank",
    is_flag=True,
    help="Draw every rank of more than 64, also those that do what another does at the same times.",
)
@json_option
def command(path: str, target: str, no_flows: bool, as_json: bool, **settings: Any) -> None:
    """Write the graph of one rank to OUT.graphml or OUT.dot, or a run's timeline.

    All edges between the chosen nodes are kept, with their kinds: a data and a control edge between
    the same two nodes are two edges.

    OUT.pftrace and OUT.json (also .gz) are timelines of the ranks, to be opened at ui.perfetto.dev:
    slices in ns on serial tracks, arrows for dependencies, counters for memory and links.
    """
    from chakrakit.api import export
    from chakrakit.views.timeline import timeline_format

    asked = {name: settings[name] for name in ("perfetto", "chrome")}
    timeline = timeline_format(target, **asked) is not None
    traces = path if timeline else _graph_source(path, settings["rank"])
    found = export(traces, target, flows=not no_flows, **settings)
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


def _graph_source(path: str, rank: int | None) -> TraceSet:
    """The traces, with a note where one rank of several was not chosen by the user."""
    from chakrakit.trace.storage import read

    traces = read(path)
    if rank is None and len(traces) > 1:
        first = traces.ranks[0]
        click.echo(f"note: rank {first} of {len(traces):,}; --rank chooses another", err=True)
    return traces
