"""`chakra report`: one page about a run."""

from __future__ import annotations

from pathlib import Path

import click

from chakrakit.cli.shared import json_option, print_json, progress


@click.command(name="report")
@click.argument("path", metavar="RUN")
@click.option(
    "-o", "--output", metavar="FILE", help="Where to write it (default: report.html or report.md)."
)
@click.option("--against", metavar="RUN", help="Another run to compare with; it is A, RUN is B.")
@click.option(
    "--faster", multiple=True, metavar="WHAT=K", help="Try WHAT k times faster, as in analyze."
)
@click.option("--peak-tflops", default=0.0, help="The device's peak, for MFU and the roofline.")
@click.option("--peak-gbps", default=0.0, help="Its memory's peak in GB/s.")
@click.option("--md", "as_md", is_flag=True, help="Markdown instead of HTML.")
@json_option
def command(
    path: str,
    output: str | None,
    against: str | None,
    faster: tuple[str, ...],
    peak_tflops: float,
    peak_gbps: float,
    as_md: bool,
    as_json: bool,
) -> None:
    """Write one self-contained page about RUN: answers first, then plots and tables. Works offline."""
    from chakrakit.insight.analysis import AnalysisOptions, analyze
    from chakrakit.insight.compare import compare_analyses
    from chakrakit.insight.rank import facts_of, pairs, read_run
    from chakrakit.trace.files import open_output
    from chakrakit.views.pages import html_report, markdown_report

    run = read_run(path)
    options = AnalysisOptions(pairs(faster) or None, peak_tflops, peak_gbps)
    with progress("analyzing") as show:
        result = analyze(run, options, show)
        other = analyze(read_run(against), options, show) if against else None
    if as_json:
        return print_json(result)
    comparison = compare_analyses([other], [result]) if other else None
    write = markdown_report if as_md else html_report
    target = output or ("report.md" if as_md else "report.html")
    facts = facts_of(run, path) | ({"against": against} if against else {})
    with open_output(target, binary_only=False) as stream:
        stream.write(write(result, facts, comparison).encode("utf-8", "replace"))
    if target != "-":
        click.echo(
            f"wrote {target}; open it with a browser: {Path(target).absolute().as_uri()}", err=True
        )
    return None
