"""`info`: what a trace holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from chakrakit.commands.command import command as command_of
from chakrakit.commands.opening import opened, said
from chakrakit.commands.options import Positional, public
from chakrakit.commands.output import Json, clean, console, print_json, print_table

if TYPE_CHECKING:
    from chakrakit.commands.inputs import Traces
    from chakrakit.trace.query import Info


@public()
def info(
    path: Annotated[
        Traces,
        Positional(
            "A file, a prefix of `prefix.N.et`, a directory, or a bundle; in Python also traces.",
            metavar="PATH",
        ),
    ],
) -> Info:
    """Say what a trace holds: ranks, nodes, edges, types, groups, communication.

    Examples
    --------
    >>> _ = ck.write(ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces, "w")
    >>> ck.info("w").ranks
    2
    >>> ck.info(ck.read("w")).subject["plan"]
    'dp 2'

    """
    from chakrakit.trace.query import describe, describe_traces
    from chakrakit.trace.sets import TraceSet

    return describe_traces(path) if isinstance(path, TraceSet) else describe(opened(path))


@command_of(info)
def command(path: str, *, json: Json = False) -> None:
    """What a trace holds: ranks, nodes, edges, types, groups, communication.

    \b
    chakra info run              # a directory, a bundle, a prefix or one file
    chakra info trace.0.et --json
    """
    contents = info(said(path))
    if json:
        return print_json(contents)
    return _print(contents)


def _print(info: Info) -> None:
    from chakrakit.results import counted

    folded = f" in {counted(info.bodies, 'body', 'bodies')}" if info.bodies < info.ranks else ""
    missing = f" ({len(info.missing_ranks)} not recorded)" if info.missing_ranks else ""
    out = console()
    if info.subject:
        out.print(clean(" · ".join(f"{label} {text}" for label, text in info.subject.items())))
    out.print(
        f"{counted(info.ranks, 'rank')}{folded} of {info.world_size:,}{missing}, "
        f"{counted(info.groups, 'group')}" + (f", {counted(info.steps, 'step')}" * bool(info.steps))
    )
    out.print(
        f"{counted(info.nodes, 'node')}, {info.edges.data:,} data and {info.edges.ctrl:,} control edges"
    )
    if info.timed:
        out.print(f"timed: {info.span_ns / 1e6:,.3f} ms from first start to last end")
    print_table(("type", "nodes"), info.types.items())
    if info.communication:
        from chakrakit.results import size_text

        heads = ("communication", "group", "of", "calls", "size", "calls each", "size each")
        rows = (
            (
                c.type,
                c.group or "(all)",
                c.ranks,
                c.count,
                size_text(c.bytes),
                f"{c.count / c.ranks:,.6g}",
                size_text(c.bytes / c.ranks),
            )
            for c in info.communication
        )
        print_table(heads, rows)
