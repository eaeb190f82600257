"""`chakra bundle`: a trace with its card as one archive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from chakrakit.cli.shared import console, json_option, print_table, print_verdict, progress

if TYPE_CHECKING:
    from chakrakit.trace.storage import BundleReport


@click.command(name="bundle")
@click.argument("path", metavar="IN")
@click.option("-o", "--output", metavar="OUT.chakra", help="The bundle to make of IN.")
@click.option(
    "--card",
    type=click.Path(path_type=Path),
    metavar="CARD.yaml",
    help="The workload's card; its fields win over what the traces say themselves.",
)
@click.option(
    "--field",
    "fields",
    multiple=True,
    metavar="NAME=VALUE",
    help="A field of the card, as in workload.data.seq_len=4096; wins over all.",
)
@click.option(
    "--add",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Put a file beside the traces: a launch script, a log.",
)
@click.option(
    "--check", "checked", is_flag=True, help="Read all of the bundle IN and compare checksums."
)
@click.option("--extract", metavar="DIR", help="Unpack the bundle IN into a new directory.")
@json_option
def command(
    path: str,
    output: str | None,
    card: Path | None,
    fields: tuple[str, ...],
    files: tuple[Path, ...],
    checked: bool,
    extract: str | None,
    as_json: bool,
) -> None:
    """Pack traces and the card of their workload into one file that every command opens.

    \b
    chakra bundle RUN -o run.chakra --card card.yaml --add train.sh
    chakra bundle run.chakra --check          exits 1 if anything is damaged
    chakra bundle run.chakra --extract run
    """
    if sum((output is not None, checked, extract is not None)) != 1:
        raise click.UsageError("give one of -o OUT.chakra, --check and --extract DIR")
    if output is None and (card or fields or files):
        raise click.UsageError("--card, --field and --add go with -o OUT.chakra")
    from chakrakit.api import bundle

    with progress("bundling") as show:
        report = bundle(
            path, output, card=card, fields=fields, add=files, extract=extract, progress=show
        )
    print_verdict(report, as_json, _print)


def _print(report: BundleReport) -> None:
    print_table(("file", "bytes", "SHA-256"), [(m.name, m.bytes, m.sha256) for m in report.members])
    for problem in report.problems:
        console().print(f"{problem.member or report.path}: {problem.problem}", markup=False)
    verdict = "ok" if report.ok else "not ok"
    console().print(f"{verdict}: {report.path}, {report.bytes:,} bytes", markup=False)
