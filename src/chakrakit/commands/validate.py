"""`validate`: what is wrong with a trace, and the repairs that are safe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Unpack

import click

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import Path_, ProgressOption, WorkerOptions, progress_of, workers_of
from chakrakit.commands.options import Option, Positional, public
from chakrakit.commands.output import Json, console, print_json, progress
from chakrakit.errors import ConfigError

if TYPE_CHECKING:
    from chakrakit.commands.inputs import Traces
    from chakrakit.trace.model import Trace
    from chakrakit.trace.validation import Finding, ValidationReport

_COLOURS = {"error": "red", "warning": "yellow", "info": ""}


class ValidateOptions(WorkerOptions, ProgressOption, total=False):
    """Options of `validate`."""

    output: Annotated[
        Path_ | None,
        Option(
            "Where the trace goes with the repairs that cannot change its meaning; what is then reported "
            "is that one. Needs a path as input.",
            None,
            flags="-o --output",
            metavar="OUT",
        ),
    ]
    everything: Annotated[
        bool,
        Option(
            "List all findings, not only the first 20 of each kind and rank.", False, flags="--all"
        ),
    ]


@public(ValidateOptions)
def validate(
    traces: Annotated[
        Traces | Trace, Positional("A path, a Trace, a TraceSet or a Run.", metavar="PATH")
    ],
    **options: Unpack[ValidateOptions],
) -> ValidationReport:
    """Check traces: framing, schema, graph, attributes, and ranks against each other.

    Examples
    --------
    >>> ck.validate(ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces).ok
    True

    """
    from chakrakit.trace.model import Trace
    from chakrakit.trace.sets import TraceSet
    from chakrakit.trace.validation import KEEP, fix
    from chakrakit.trace.validation import validate as check

    keep = None if options["everything"] else KEEP
    workers, report_progress, output = workers_of(options), progress_of(options), options["output"]

    def read(piece: int) -> None:
        report_progress(piece, None)

    if output is None:
        return check(traces, keep=keep, progress=read, workers=workers)
    if isinstance(traces, Trace | TraceSet):
        raise ConfigError("repairs are made while a file is copied: give the path of the traces")
    return fix(traces, output, keep=keep, progress=read, workers=workers)


@command_of(validate)
def command(
    *,
    fix: Annotated[bool, Option("Make the repairs that cannot change meaning.")] = False,
    output: str | None,
    json: Json = False,
    **options: Any,
) -> None:
    """Check a trace: framing, schema, graph, attributes, and ranks against each other.

    Exits 0 if there are no errors (warnings are fine), else 1. With --fix the trace goes to OUT,
    repaired: a file for a file (by its suffix), a directory for a prefix or a directory; what is then
    reported is OUT. Data dependencies are never touched.

    \b
    chakra validate run
    chakra validate trace.0.et --fix -o repaired.0.et
    """
    if fix != (output is not None):
        raise click.UsageError("--fix and -o OUT go together: the input is never changed in place")
    with progress("validating") as show:
        report = validate(output=output, progress=show, **options)
    if json:
        print_json(report)
    else:
        _print(report)
    if not report.ok:
        click.get_current_context().exit(1)


def _print(report: ValidationReport) -> None:
    from chakrakit.results import counted

    out = console()
    for repair in report.repairs:
        out.print(f"repaired rank {repair.rank}: {repair.message} ({repair.code})")
    last = ""
    for finding in report.findings:
        if finding.code != last:
            last = finding.code
            title = f"{finding.severity} {last}: {report.counts[last]:,}"
            out.print(title, _COLOURS[finding.severity])
        out.print(f"  {_line(finding)}")
    if report.span_ns and report.plain_span_ns is not None:
        off = report.plain_span_ns / report.span_ns - 1
        cure = "; `chakra transform --pass portable` makes them agree" if abs(off) > 0.01 else ""
        out.print(
            f"read plainly: {report.plain_span_ns / 1e6:,.3f} ms, {off:+.1%} of the "
            f"{report.span_ns / 1e6:,.3f} ms that the times span{cure}"
        )
    verdict = "ok" if report.ok else "not ok"
    shared = (
        f" in {counted(report.bodies, 'body', 'bodies')}" if report.bodies < report.ranks else ""
    )
    out.print(
        f"{verdict}: {counted(report.nodes, 'node')}{shared} of {counted(report.ranks, 'rank')}, "
        f"{counted(report.errors, 'error')}, {counted(report.warnings, 'warning')}, "
        f"{counted(report.infos, 'note')}"
    )


def _line(finding: Finding) -> str:
    where = [] if finding.rank is None else [f"rank {finding.rank}"]
    if finding.node is not None:
        where.append(
            f"node {finding.node} {finding.name!r}" if finding.name else f"node {finding.node}"
        )
    return f"{' '.join(where)}: {finding.message}" if where else finding.message
