"""`view`: a run in the browser."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict, Unpack

import click

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import Path_
from chakrakit.commands.opening import said
from chakrakit.commands.options import Option, Positional, public


class ViewOptions(TypedDict, total=False):
    """Options of `view`."""

    port: Annotated[
        int | None,
        Option(
            "The port to listen on; by default 8127 or any free one; 0: any free one.",
            None,
            metavar="N",
            least=0,
            most=65535,
        ),
    ]
    browser: Annotated[bool, Option("Open a browser; else the address alone is said.", True)]


@public(ViewOptions)
def view(
    *runs: Annotated[Path_, Positional("One path, or two to compare.", metavar="RUN [OTHER]")],
    **options: Unpack[ViewOptions],
) -> None:
    """Look at a run, or two, in the browser; serves on this machine only, until interrupted.

    Examples
    --------
    >>> ck.view("run")  # doctest: +SKIP

    """
    _serve(runs, options, lambda _address: None)


def _serve(runs: tuple[Path_, ...], options: ViewOptions, announce: Any) -> None:
    from chakrakit.commands.opening import opened
    from chakrakit.views.app import open_session, serve  # needs the extra `view`

    session = open_session([opened(run) for run in runs])
    serve(session, options["port"], options["browser"], announce)


@command_of(view)
def command(runs: tuple[str, ...], **options: Any) -> None:
    """Look at RUN in the browser: timeline at any zoom, search, dependencies, critical path, analyses.

    With OTHER, both are shown one above the other, and what differs is marked. Traces without times
    are shown in the order their dependencies allow. Serves on 127.0.0.1 only, until Ctrl-C.

    \b
    chakra view run
    chakra view before after
    """
    if len(runs) > 2:
        raise click.UsageError("one run, or two to compare")
    _serve(tuple(map(said, runs)), options, lambda at: click.echo(f"{at}  (Ctrl-C stops)"))  # type: ignore[arg-type]
