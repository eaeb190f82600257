"""`chakra validate`: what is wrong with a trace, and the repairs that are safe."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from chakrakit.cli.shared import (
    console,
    json_option,
    path_argument,
    print_verdict,
    progress,
    workers_options,
)

if TYPE_CHECKING:
    from chakrakit.trace.validation import Finding, ValidationReport

_COLOURS = {"error": "bold red", "warning": "yellow", "info": "dim"}


@click.command(name="validate")
@path_argument
@click.option("--fix", "repair", is_flag=True, help="Make the repairs that cannot change meaning.")
@click.option("-o", "--output", metavar="OUT", help="Where the repaired trace goes, with --fix.")
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="List all findings, not only the first 20 of each kind and rank.",
)
@workers_options
@json_option
def command(
    path: str,
    repair: bool,
    output: str | None,
    everything: bool,
    engine: str | None,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Check a trace: framing, schema, graph, attributes, and ranks against each other.

    Exits 0 if there are no errors (warnings are fine), else 1. With --fix the trace goes to OUT,
    repaired: a file for a file (by its suffix), a directory for a prefix or a directory; what is then
    reported is OUT. Data dependencies are never touched.
    """
    if repair != (output is not None):
        raise click.UsageError("--fix and -o OUT go together: the input is never changed in place")
    from chakrakit.api import validate

    with progress("validating") as show:
        report = validate(
            path, output=output, everything=everything, engine=engine, jobs=jobs, progress=show
        )
    print_verdict(report, as_json, _print)


def _print(report: ValidationReport) -> None:
    from rich.text import Text

    from chakrakit.results import counted

    out = console()
    for repair in report.repairs:
        out.print(Text(f"repaired rank {repair.rank}: {repair.message} ({repair.code})"))
    last = ""
    for finding in report.findings:
        if finding.code != last:
            last = finding.code
            title = f"{finding.severity} {last}: {report.counts[last]:,}"
            out.print(Text(title, style=_COLOURS[finding.severity]))
        out.print(Text(f"  {_line(finding)}"))
    if report.span_ns and report.plain_span_ns is not None:
        off = report.plain_span_ns / report.span_ns - 1
        cure = "; `chakra transform --pass portable` makes them agree" if abs(off) > 0.01 else ""
        out.print(
            f"read plainly: {report.plain_span_ns / 1e6:,.3f} ms, {off:+.1%} of the "
            f"{report.span_ns / 1e6:,.3f} ms that the times span{cure}"
        )
    verdict = "ok" if report.ok else "not ok"
    out.print(
        Text(
            f"{verdict}: {counted(report.nodes, 'node')} of {counted(report.ranks, 'rank')}, "
            f"{counted(report.errors, 'error')}, {counted(report.warnings, 'warning')}, "
            f"{counted(report.infos, 'note')}"
        )
    )


def _line(finding: Finding) -> str:
    where = [] if finding.rank is None else [f"rank {finding.rank}"]
    if finding.node is not None:
        where.append(
            f"node {finding.node} {finding.name!r}" if finding.name else f"node {finding.node}"
        )
    return f"{' '.join(where)}: {finding.message}" if where else finding.message
