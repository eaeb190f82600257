"""`view`: a run in the browser."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

import click

from chakrakit.commands import run_server
from chakrakit.commands.command import command as command_of
from chakrakit.commands.opening import Say, opened
from chakrakit.commands.options import Option, Positional, public
from chakrakit.commands.pages import page_at

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
    _serve(runs, options, lambda _address: None, lambda _line: None)


def _serve(runs: tuple[Traces, ...], options: ViewOptions, announce: Say, say: Say) -> None:
    from chakrakit.trace.sets import TraceSet
    from chakrakit.views.app import open_session, serve, serve_page  # needs the extra `view`

    where = options["port"], options["browser"], announce
    alone = os.fspath(runs[0]) if len(runs) == 1 and not isinstance(runs[0], TraceSet) else ""
    if alone and (page := page_at(alone)) is not None:
        return serve_page(page, *where)
    jobs = jobs_in(Path(alone)) if alone else []
    sources = [run if isinstance(run, TraceSet) else opened(run, say) for run in jobs or runs]
    return serve(open_session(sources, options["machine"], bool(jobs)), *where)


def jobs_in(folder: Path) -> list[str]:
    """The runs of a folder that `chakra simulate A B … -o FOLDER` wrote; else none."""
    cards = sorted(folder.glob("*/card.json")) if folder.is_dir() else []
    runs = {card.parent.name: _jobs_of(card) for card in cards}
    together = len(runs) > 1 and set(runs) == {job for jobs in runs.values() for job in jobs}
    return [str(card.parent) for card in cards] if together else []


def _jobs_of(card: Path) -> list[str]:
    """The jobs that a run met on its way, itself among them, as its card says."""
    from chakrakit.trace.sets import read_card

    jobs = read_card(card).settings.get("jobs")
    return [str(job) for job in jobs] if isinstance(jobs, list) else []


@command_of(view)
def command(runs: tuple[str, ...], **options: Any) -> None:
    """Look at RUN in the browser: timeline at any zoom, search, dependencies, critical path, analyses.

    With RUN alone it can be changed: a class or kernel faster, a collective on another stream, another link,
    device or algorithm, one synchronization less. The new schedule is drawn below at once, with the command
    lines that come to the same. With OTHER, both are shown one above the other, and what differs is marked.

    RUN may also be a folder of jobs that ran together (`chakra simulate A B -o DIR`), the folder of a sweep,
    the id or folder of a study, or the file of a campaign's job: each has a page of its own.

    Traces without times are shown in the order their dependencies allow. Serves on 127.0.0.1 only, until
    Ctrl-C.

    \b
    chakra view run
    chakra view run --machine my-cluster.yaml
    chakra view before after
    chakra view study.sweep
    """
    if len(runs) > 2:
        raise click.UsageError("one run, or two to compare")
    told = partial(click.echo, err=True)
    run_server(lambda: _serve(runs, options, _announce, told))  # type: ignore[arg-type]


def _announce(address: str) -> None:
    click.echo(f"{address}  (Ctrl-C stops)")
