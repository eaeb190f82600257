"""`report`: one page about a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import click

from chakrakit.commands.analyze import AnalysisSettings, analyze, analyzing, with_advice
from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import Path_, ProgressOption, progress_of, traces_of
from chakrakit.commands.opening import said
from chakrakit.commands.options import Option, Positional, picked, public
from chakrakit.commands.output import Json, print_json, progress
from chakrakit.commands.pages import page_at
from chakrakit.errors import ConfigError

if TYPE_CHECKING:
    from chakrakit.commands.inputs import Traces
    from chakrakit.insight import Analysis


class ReportOptions(AnalysisSettings, ProgressOption, total=False):
    """Options of `report`."""

    against: Annotated[
        Traces | None,
        Option("Another run to compare with; it is A, RUN is B.", None, metavar="RUN"),
    ]
    md: Annotated[bool, Option("Markdown instead of HTML.", False)]


@public(ReportOptions)
def report(
    run: Annotated[Traces, Positional("A Run, or the path of one.", metavar="RUN")],
    output: Annotated[
        Path_ | None,
        Option(
            "Where to write it; by default report.html, or report.md with --md. FILE.md is Markdown too.",
            flags="-o --output",
            metavar="FILE",
        ),
    ] = None,
    **options: Unpack[ReportOptions],
) -> Analysis:
    """Write one self-contained page about a run: answers first, then plots and tables.

    Examples
    --------
    >>> traces = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces
    >>> run = ck.simulate(traces, "dgx-h100", compute="roofline").run()
    >>> ck.report(run, "page.html").span_ns > 0
    True

    """
    from chakrakit.insight import analyze as analyze_run
    from chakrakit.insight import compare_analyses
    from chakrakit.insight.rank import facts_of
    from chakrakit.trace.files import open_output
    from chakrakit.views import html_report, markdown_report

    timed, report_progress, analysis_options = (
        traces_of(run, timed=True),
        progress_of(options),
        analyzing(options),
    )
    result = analyze_run(timed, analysis_options, report_progress)
    result = with_advice(result, timed, run, options)
    facts, comparison, against = facts_of(timed, _path(run)), None, options["against"]
    if against is not None:
        baseline = traces_of(against, timed=True)
        before = analyze_run(baseline, analysis_options, report_progress)
        comparison = compare_analyses([before], [result], (baseline, timed))
        facts |= {"against": _path(against) or baseline.card.name}
    page = markdown_report if _is_markdown(output, options["md"]) else html_report
    with open_output(os.fspath(output or _page_of(options["md"])), binary_only=False) as stream:
        stream.write(page(result, facts, comparison).encode("utf-8", "replace"))
    return result


def _is_markdown(output: os.PathLike[str] | str | None, asked: bool) -> bool:
    """Whether a page is Markdown: by its option, or by the ending of its file."""
    return asked or (output is not None and os.fspath(output).endswith(".md"))


def _page_of(md: bool) -> str:
    """Returns the file that a page goes to by default."""
    return "report.md" if md else "report.html"


def _path(run: Traces) -> str:
    return os.fspath(run) if isinstance(run, str | os.PathLike) else ""


@command_of(report)
def command(run: str, *, output: str | None, json: Json = False, **options: Any) -> None:
    """Write one self-contained page about RUN: answers first, then plots and tables. Works offline.

    RUN may also be a campaign's job, a sweep that was run, or a study's id.
    With --json the analysis is printed, and a page is written only where -o names it.

    \b
    chakra report run -o run.html
    chakra report run --against before -o run.html
    """
    target = output or _page_of(options["md"])
    if (page := page_at(run)) is not None:
        return _write_page(run, page, target, json or bool(options["md"] or options["against"]))
    source = said(run)
    with progress("analyzing") as show:
        if json and output is None:
            if options["against"] is not None:
                click.echo("note: only a page says what differs; -o FILE writes one", err=True)
            return print_json(analyze(source, progress=show, **picked(analyze, options)))
        result = report(source, target, progress=show, **options)
    if json:
        print_json(result)
    if _is_markdown(target, options["md"]):
        return click.echo(f"wrote {target}", err=True)
    return _say_where(target)


def _write_page(run: str, page: str, target: str, more_is_asked: bool) -> None:
    """The page of a campaign, a sweep or a study, which is HTML and nothing else."""
    from chakrakit.trace.files import open_output

    if more_is_asked:
        raise ConfigError(
            f"{run} is not a run: its page takes neither --md, --json nor --against; `chakra campaign`, "
            "`sweep` and `study` print their figures with --json"
        )
    with open_output(target, binary_only=False) as stream:
        stream.write(page.encode("utf-8", "replace"))
    _say_where(target)


def _say_where(target: str) -> None:
    if target != "-":
        click.echo(
            f"wrote {target}; open it with a browser: {Path(target).absolute().as_uri()}", err=True
        )
