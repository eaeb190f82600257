"""`export`: a (selected) graph, or a run's timeline, for other tools."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, Unpack

import click

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import Pairs, Path_, mapping_of, pairs_of, traces_of
from chakrakit.commands.options import Option, Positional, picked, public
from chakrakit.commands.output import Json, print_json
from chakrakit.errors import ConfigError, nearest

if TYPE_CHECKING:
    from chakrakit.commands.inputs import Traces
    from chakrakit.trace.codecs import Exported
    from chakrakit.trace.sets import Run, TraceSet

OfGraph = partial(Option, group="Of a graph")
OfWorkload = partial(Option, group="Of a workload")
OfTimeline = partial(Option, group="Of a timeline")


class ExportOptions(TypedDict, total=False):
    """Options of `export`."""

    rank: Annotated[
        int | None,
        Option(
            "The rank to export; by default the lowest for a graph, all for a timeline or spans.",
            None,
            metavar="R",
        ),
    ]
    around: Annotated[
        int | None, OfGraph("Only what is near the node with this id.", None, metavar="ID")
    ]
    hops: Annotated[int, OfGraph("How many edges away counts as near.", 2, metavar="N", least=0)]
    types: Annotated[
        Sequence[str],
        OfGraph(
            "Only nodes of this type, such as COMM_COLL_NODE.", (), flags="--type", metavar="TYPE"
        ),
    ]
    name: Annotated[
        str | None, OfGraph("Only nodes whose name contains a match.", None, metavar="REGEX")
    ]
    to: Annotated[
        Literal["goal", "simai", "astra1", "msccl", "otlp"] | None,
        Option(
            "Write a workload for another tool: GOAL (text, or binary where OUT ends in .bin), SimAI's or "
            "ASTRA-sim 1.0's layers, one collective's algorithm as MSCCL's XML, a run's nodes as "
            "OpenTelemetry spans.",
            None,
        ),
    ]
    machine: Annotated[
        str | None,
        OfWorkload(
            "Algorithms of collectives are the fastest on this one; by default one switch.", None
        ),
    ]
    algorithms: Annotated[
        Pairs,
        OfWorkload(
            "The algorithm of a collective.",
            (),
            flags="--algorithm",
            metavar="C=NAME",
            parse=pairs_of,
        ),
    ]
    perfetto: Annotated[
        bool, OfTimeline("A run's timeline in Perfetto's own format (.pftrace).", False)
    ]
    chrome: Annotated[bool, OfTimeline("A run's timeline as Chrome JSON (.json).", False)]
    flows: Annotated[bool, OfTimeline("Arrows for dependencies.", True)]
    node_size: Annotated[
        int, OfTimeline("Ranks per node, to group them; 0: do not.", 0, metavar="N", least=0)
    ]
    every_rank: Annotated[
        bool,
        OfTimeline(
            "Draw every rank of more than 64, also those that do what another does at the same times.",
            False,
        ),
    ]


@public(ExportOptions)
def export(
    traces: Annotated[Traces, Positional("A path, a TraceSet or a Run.", metavar="PATH")],
    target: Annotated[Path_, Positional("The file; its suffix says the format.", metavar="OUT")],
    **options: Unpack[ExportOptions],
) -> Exported:
    """Write one rank's graph (`.graphml`, `.dot`), a run's timeline, or a workload for another tool.

    Examples
    --------
    >>> traces = ck.generate(model="gpt3-125m", seq=128, global_batch=1).traces
    >>> ck.export(traces, "w.dot", types=["COMP_NODE"]).nodes > 0
    True

    """
    from chakrakit.views import TimelineOptions, timeline_format, write_timeline

    if options["to"] is not None:
        return _export_workload(traces, target, options)
    formats = {"perfetto": options["perfetto"], "chrome": options["chrome"]}
    if timeline := timeline_format(target, **formats):
        _refuse_selection(options)
        run = _run_of(traces, options["rank"])
        timeline_options = TimelineOptions(**picked(TimelineOptions, options))
        return write_timeline(run, target, timeline_options, chrome=timeline == "chrome")
    return _export_graph(traces_of(traces), target, options)


def _run_of(traces: Traces, rank: int | None) -> Run:
    """The run, or one rank of it."""
    run = traces_of(traces, timed=True)
    if rank is None:
        return run
    run.trace(rank)  # which refuses a rank that there is not
    return run.select_ranks([rank])


def _refuse_selection(options: ExportOptions) -> None:
    """A timeline shows every node of its ranks: says so where some were asked for."""
    for name in ("around", "types", "name"):
        if options[name]:
            flag = "type" if name == "types" else name
            raise ConfigError(f"--{flag} is for graphs (.graphml, .dot); a timeline has all nodes")


def _export_workload(traces: Traces, target: Path_, options: ExportOptions) -> Exported:
    from chakrakit.machines import load_machine
    from chakrakit.simulator.exports import write_goal, write_layers, write_msccl
    from chakrakit.views import write_spans

    name = options["to"]
    if name == "otlp":
        return write_spans(_run_of(traces, options["rank"]), target)
    if name in ("simai", "astra1"):
        return write_layers(traces_of(traces), target, simai=name == "simai")
    machine = None if options["machine"] is None else load_machine(options["machine"])
    algorithms = mapping_of(options["algorithms"])
    write = write_msccl if name == "msccl" else write_goal
    return write(traces_of(traces), target, machine, algorithms)


def _export_graph(traces: TraceSet, target: Path_, options: ExportOptions) -> Exported:
    from chakrakit.trace.codecs import Selection
    from chakrakit.trace.codecs import export as export_graph

    rank, name = options["rank"], options["name"]
    trace = traces.trace(traces.ranks[0] if rank is None else rank)
    if name is not None and len(trace) and not Selection(name=name).rows(trace).any():
        names = dict.fromkeys(trace.names.to_pylist())
        raise ConfigError(f"no node's name matches {name!r}; {nearest(name, names)}")
    return export_graph(trace, target, Selection(**picked(Selection, options)))


@command_of(export)
def command(traces: str, target: str, *, json: Json = False, **options: Any) -> None:
    """Write the graph of one rank to OUT.graphml or OUT.dot, or a run's timeline.

    All edges between the chosen nodes are kept, with their kinds: a data and a control edge between
    the same two nodes are two edges.

    OUT.pftrace and OUT.json (also .gz) are timelines of the ranks, to be opened at ui.perfetto.dev:
    slices in ns on serial tracks, arrows for dependencies, counters for memory and links.

    \b
    chakra export run run.pftrace --rank 0    # a timeline for ui.perfetto.dev
    chakra export run graph.dot --rank 0
    """
    from chakrakit.views import timeline_format

    formats = {name: options[name] for name in ("perfetto", "chrome")}
    timeline = options["to"] is None and timeline_format(target, **formats) is not None
    source = traces if timeline or options["to"] else _graph_source(traces, options["rank"])
    exported = export(source, target, **options)
    if json:
        return print_json(exported)
    if exported.dangling:
        click.echo(
            f"note: {exported.dangling:,} dependencies on nodes that do not exist are left out",
            err=True,
        )
    if exported.folded:
        click.echo(
            f"note: {exported.folded:,} ranks do what another does at the same times, which is drawn for "
            "them; --every-rank draws all",
            err=True,
        )
    for what, count in exported.left_out.items():
        click.echo(f"note: {count:,} {what} have no place in it and are left out", err=True)
    phrase = "slices and {} arrows" if timeline else "nodes and {} edges"
    text = f"{exported.nodes:,} {phrase.format(f'{exported.edges:,}')} to {target}"
    click.echo(text + ("; open it at ui.perfetto.dev" if timeline else ""), err=True)
    return None


def _graph_source(path: str, rank: int | None) -> TraceSet:
    """The traces, with a note where one rank of several was not chosen by the user."""
    from chakrakit.trace.storage import read

    traces = read(path)
    if rank is None and len(traces) > 1:
        first = traces.ranks[0]
        click.echo(f"note: rank {first} of {len(traces):,}; --rank chooses another", err=True)
    return traces
