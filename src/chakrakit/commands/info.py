"""`info`: what a trace holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import Path_
from chakrakit.commands.opening import opened, said
from chakrakit.commands.options import Positional, public
from chakrakit.commands.output import Json, console, print_json, print_table

if TYPE_CHECKING:
    from chakrakit.trace.query import Info


@public()
def info(
    path: Annotated[
        Path_,
        Positional("A file, a prefix of `prefix.N.et`, a directory, or a bundle.", metavar="PATH"),
    ],
) -> Info:
    """Say what a trace holds: ranks, nodes, edges, types, groups, communication.

    Examples
    --------
    >>> _ = ck.write(ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces, "w")
    >>> ck.info("w").ranks
    2

    """
    from chakrakit.trace.query import describe

    return describe(opened(path))


@command_of(info)
def command(path: str, *, json: Json = False) -> None:
    """What a trace holds: ranks, nodes, edges, types, groups, communication."""
    contents = info(said(path))
    if json:
        return print_json(contents)
    return _print(contents)


def _print(info: Info) -> None:
    from chakrakit.results import counted

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
