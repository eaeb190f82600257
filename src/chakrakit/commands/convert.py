"""`convert`: between formats, one file or all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Unpack

import click

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import Path_, ProgressOption, progress_of
from chakrakit.commands.options import Option, Positional, public
from chakrakit.commands.output import Json, print_json, progress

if TYPE_CHECKING:
    from chakrakit.commands.results import Converted


class ConvertOptions(ProgressOption, total=False):
    """Options of `convert`."""

    portable: Annotated[
        bool,
        Option("Rewrite a run so that readers of plain dependencies get the same schedule.", False),
    ]


@public(ConvertOptions)
def convert(
    path: Annotated[Path_, Positional("What to convert.", metavar="IN")],
    target: Annotated[
        Path_,
        Positional(
            "`out.et`, `.et.gz`, `.et.zst`, `.json`, `.feeder.json`, `.parquet`, any of these as `out.N.…` "
            "for one file per rank, or a directory.",
            metavar="OUT",
        ),
    ],
    **options: Unpack[ConvertOptions],
) -> Converted:
    """Convert a trace; the target's name says the format.

    Examples
    --------
    >>> _ = ck.write(ck.generate(model="gpt3-125m", seq=128, global_batch=1).traces, "one")
    >>> ck.convert("one", "one.json").left_out
    {}

    """
    from chakrakit.commands.results import Converted
    from chakrakit.passes.base import parse, transform
    from chakrakit.trace.storage import convert as convert_files
    from chakrakit.trace.storage import read, write

    if options["portable"]:
        traces, report = transform(read(path), [parse("portable")])
        return Converted(write(traces, target), _notes(report.applied[0].notes))
    return Converted(convert_files(path, target, progress_of(options)))


def _notes(spans: dict[str, Any]) -> list[str]:
    """Says how much longer ASTRA-sim would take, where it is more than a hundredth."""
    run, serial = spans["makespan_ns"], spans["one_at_a_time_ns"]
    if serial <= 1.01 * run:
        return []
    return [
        f"ASTRA-sim runs one node of the host and one of the device at a time, {serial / 1e6:,.3f} ms "
        f"instead of {run / 1e6:,.3f}; `chakra transform --pass 'portable{{one_at_a_time=true}}'` joins what "
        "overlaps"
    ]


@command_of(convert)
def command(*, target: str, json: Json = False, **options: Any) -> None:
    """Convert IN to OUT; OUT's name says the format.

    \b
    out.et  out.et.gz  out.et.zst   Chakra protobuf
    out.json                        one JSON document, lossless
    out.feeder.json                 the feeder's workload_graph
    out.parquet                     columns
    out.N.et (or any of the above)  one file per rank, groups in out.json
    out                             a directory with everything

    A single file is converted in pieces: it may be larger than memory, or come through a pipe.

    \b
    chakra convert trace.0.et trace.parquet
    chakra convert run run.N.et          # one file per rank
    """
    with progress("converting") as show:
        converted = convert(target=target, progress=show, **options)
    if json:
        return print_json(converted)
    for name, count in converted.left_out.items():
        click.echo(f"note: {count:,} values of {name!r} have no place in {target}", err=True)
    for note in converted.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(f"wrote {target}", err=True)
    return None
