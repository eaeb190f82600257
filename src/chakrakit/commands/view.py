"""`view`: a run in the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

import click

from chakrakit.commands.command import command as command_of
from chakrakit.commands.opening import said
from chakrakit.commands.options import Option, Positional, public

if TYPE_CHECKING:
    from chakrakit.commands.inputs import Traces


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
    machine: Annotated[
        str,
        Option(
            "The machine of the run, for edits of links and algorithms; by default the preset that it names.",
            "",
            metavar="NAME_OR_FILE",
        ),
    ]
    browser: Annotated[bool, Option("Open a browser; else the address alone is said.", True)]


@public(ViewOptions)
def view(
    *runs: Annotated[
        Traces, Positional("One run, or two to compare: paths or Runs.", metavar="RUN [OTHER]")
    ],
    **options: Unpack[ViewOptions],
) -> None:
    """Look at a run, or two, in the browser; serves on this machine only, until interrupted.

    Examples
    --------
    >>> run = ck.simulate("w", "dgx-h100").run()  # doctest: +SKIP
    >>> ck.view(run)  # doctest: +SKIP

    """
    _serve(runs, options, lambda _address: None)


def _serve(runs: tuple[Traces, ...], options: ViewOptions, announce: Any) -> None:
    from chakrakit.commands.opening import opened
    from chakrakit.trace.sets import TraceSet
    from chakrakit.views.app import open_session, serve  # needs the extra `view`

    sources = [run if isinstance(run, TraceSet) else opened(run) for run in runs]
    session = open_session(sources, options["machine"])
    serve(session, options["port"], options["browser"], announce)


@command_of(view)
def command(runs: tuple[str, ...], **options: Any) -> None:
    """Look at RUN in the browser: timeline at any zoom, search, dependencies, critical path, analyses.

    With RUN alone it can be changed: a class or kernel faster, a collective on another stream, another link,
    device or algorithm, one synchronization less. The new schedule is drawn below at once, with the command
    lines that come to the same. With OTHER, both are shown one above the other, and what differs is marked.

    Traces without times are shown in the order their dependencies allow. Serves on 127.0.0.1 only, until
    Ctrl-C.

    \b
    chakra view run
    chakra view run --machine my-cluster.yaml
    chakra view before after
    """
    if len(runs) > 2:
        raise click.UsageError("one run, or two to compare")
    _serve(tuple(map(said, runs)), options, lambda at: click.echo(f"{at}  (Ctrl-C stops)"))  # type: ignore[arg-type]
