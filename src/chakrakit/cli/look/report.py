"""`chakra report`: one page about a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
    """Write one self-contained page about RUN: answers first, then plots and tables. Works offline.

    With --json the analysis is printed, and a page is written only where -o names it.
    """
    from chakrakit.api import analyze, report

    asked: dict[str, Any] = {"faster": faster, "peak_tflops": peak_tflops, "peak_gbps": peak_gbps}
    with progress("analyzing") as show:
        if as_json and output is None:
            if against is not None:
                click.echo("note: only a page says what differs; -o FILE writes one", err=True)
            return print_json(analyze(path, progress=show, **asked))
        target = output or ("report.md" if as_md else "report.html")
        result = report(path, target, against=against, md=as_md, progress=show, **asked)
    if as_json:
        print_json(result)
    if target != "-":
        click.echo(
            f"wrote {target}; open it with a browser: {Path(target).absolute().as_uri()}", err=True
        )
    return None
