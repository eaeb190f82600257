"""`chakra bundle`: a trace with its card as one archive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from chakrakit.cli.shared import console, json_option, print_json, print_table, progress

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
    report = _made(path, output, card, fields, files) if output else _read(path, extract)
    if as_json:
        print_json(report)
    else:
        _print(report)
    if not report.ok:
        click.get_current_context().exit(1)


def _made(
    path: str, output: str, card: Path | None, fields: tuple[str, ...], files: tuple[Path, ...]
) -> BundleReport:
    from chakrakit.trace.cards import fields_from, overlaid, read_card_file
    from chakrakit.trace.storage import read, write_bundle

    given = overlaid(read_card_file(card) if card else {}, fields_from(fields))
    traces = read(path)
    traces.cache_bytes = 0  # each body is written once
    done = 0
    with progress("bundling") as show:

        def step(_rank: int) -> None:
            nonlocal done
            done += 1
            show(done, traces.body_count)

        return write_bundle(traces, output, given, files, step)


def _read(path: str, target: str | None) -> BundleReport:
    from chakrakit.trace.storage import check_bundle, extract_bundle

    if target is not None:
        extract_bundle(path, target)
    return check_bundle(path)


def _print(report: BundleReport) -> None:
    print_table(("file", "bytes", "SHA-256"), [(m.name, m.bytes, m.sha256) for m in report.members])
    for problem in report.problems:
        console().print(f"{problem.member or report.path}: {problem.problem}", markup=False)
    verdict = "ok" if report.ok else "not ok"
    console().print(f"{verdict}: {report.path}, {report.bytes:,} bytes", markup=False)
