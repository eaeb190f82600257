"""`bundle`: a trace with its card as one archive."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import click

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import Path_, ProgressOption, progress_of, traces_of
from chakrakit.commands.options import Option, Positional, public
from chakrakit.commands.output import Json, console, print_json, print_table, progress
from chakrakit.errors import ChakraError, ConfigError

if TYPE_CHECKING:
    from chakrakit.commands.inputs import Traces
    from chakrakit.trace.storage import BundleReport


class BundleOptions(ProgressOption, total=False):
    """Options of `bundle`."""

    card: Annotated[
        Path_ | None,
        Option(
            "The workload's card; its fields win over what the traces say themselves.",
            None,
            metavar="CARD.yaml",
        ),
    ]
    fields: Annotated[
        Iterable[str],
        Option(
            "A field of the card, as in workload.data.seq_len=4096; wins over all.",
            (),
            flags="--field",
            metavar="NAME=VALUE",
        ),
    ]
    add: Annotated[
        Iterable[Path_],
        Option("Put a file beside the traces: a launch script, a log.", (), metavar="FILE"),
    ]
    extract: Annotated[
        Path_ | None, Option("Unpack the bundle into a new directory.", None, metavar="DIR")
    ]


@public(BundleOptions)
def bundle(
    traces: Annotated[
        Traces, Positional("What to pack; a bundle to check where there is no -o.", metavar="IN")
    ],
    output: Annotated[
        Path_ | None, Option("The bundle to make.", flags="-o --output", metavar="OUT.chakra")
    ] = None,
    **options: Unpack[BundleOptions],
) -> BundleReport:
    """Pack traces and their workload's card into one file with checksums, or check and unpack one.

    Examples
    --------
    >>> traces = ck.generate(model="gpt3-125m", seq=128, global_batch=1).traces
    >>> ck.bundle(traces, "w.chakra").ok, ck.bundle("w.chakra").ok
    (True, True)

    """
    from chakrakit.trace.sets import TraceSet
    from chakrakit.trace.storage import check_bundle, extract_bundle

    if output is not None:
        return _pack(traces_of(traces), output, options)
    if isinstance(traces, TraceSet):
        raise ConfigError("give `output` to pack traces; without it a bundle's path is checked")
    if options["extract"] is not None:
        extract_bundle(traces, options["extract"])
    return _opened(check_bundle(traces))


def _opened(report: BundleReport) -> BundleReport:
    """The report, with a problem more if the files are whole and say what no command could use."""
    from chakrakit.trace.files import Problem
    from chakrakit.trace.storage import read, workload_card
    from chakrakit.trace.validation import validate

    if not report.ok:
        return report
    try:
        traces = read(report.path)
        workload_card(traces, {})  # what the traces carry is read again when they are packed
        checked = validate(traces)
        wrong = next((f for f in checked.findings if f.severity == "error"), None)
        problem = f"does not validate: {wrong.code}: {wrong.message}" if wrong else ""
    except ChakraError as error:
        problem = f"cannot be opened: {error}"
    if problem:
        report.ok = False
        report.problems.append(Problem("", problem))
    return report


def _pack(traces: Any, output: Path_, options: BundleOptions) -> BundleReport:
    from chakrakit.trace.storage import fields_from, overlaid, read_card_file, write_bundle

    card = read_card_file(Path(options["card"])) if options["card"] else {}
    fields = overlaid(card, fields_from(options["fields"]))
    report_progress, bodies_packed = progress_of(options), count(1)
    with traces.uncached():
        return write_bundle(
            traces,
            output,
            fields,
            list(options["add"]),
            lambda _rank: report_progress(next(bodies_packed), traces.body_count),
        )


@command_of(bundle)
def command(
    *,
    output: str | None,
    extract: str | None,
    check: Annotated[bool, Option("Read all of the bundle IN and compare checksums.")] = False,
    json: Json = False,
    **options: Any,
) -> None:
    """Pack traces and the card of their workload into one file that every command opens.

    \b
    chakra bundle RUN -o run.chakra --card card.yaml --add train.sh
    chakra bundle run.chakra --check          # exits 1 if anything is damaged
    chakra bundle run.chakra --extract run
    """
    if sum((output is not None, check, extract is not None)) != 1:
        raise click.UsageError("give one of -o OUT.chakra, --check and --extract DIR")
    if output is None and any(options[name] for name in ("card", "fields", "add")):
        raise click.UsageError("--card, --field and --add go with -o OUT.chakra")
    with progress("bundling") as show:
        report = bundle(output=output, extract=extract, progress=show, **options)
    if json:
        print_json(report)
    else:
        _print(report)
    if not report.ok:
        click.get_current_context().exit(1)


def _print(report: BundleReport) -> None:
    print_table(
        ("file", "bytes", "SHA-256"),
        [(m.name, m.bytes, f"{m.sha256[:16]}…") for m in report.members],
    )
    for problem in report.problems:
        console().print(f"{problem.member or report.path}: {problem.problem}")
    verdict = "ok" if report.ok else "not ok"
    console().print(f"{verdict}: {report.path}, {report.bytes:,} bytes")
