"""`chakra convert`: between formats, one file or all ranks."""

from __future__ import annotations

import click

from chakrakit.cli.shared import json_option, print_json, progress


@click.command(name="convert")
@click.argument("path", metavar="IN")
@click.argument("target", metavar="OUT")
@click.option(
    "--portable",
    is_flag=True,
    help="Rewrite a run so that readers of plain dependencies get the same schedule.",
)
@json_option
def command(path: str, target: str, portable: bool, as_json: bool) -> None:
    """Convert IN to OUT; OUT's name says the format.

    \b
    out.et  out.et.gz  out.et.zst   Chakra protobuf
    out.json                        one JSON document, lossless
    out.feeder.json                 the feeder's workload_graph
    out.parquet                     columns
    out.N.et (or any of the above)  one file per rank, groups in out.json
    out                             a directory with everything

    A single file is converted in pieces: it may be larger than memory, or come through a pipe.
    """
    from chakrakit.api import convert

    with progress("converting") as show:
        done = convert(path, target, portable=portable, progress=show)
    if as_json:
        return print_json(done)
    for name, count in done.left_out.items():
        click.echo(f"note: {count:,} values of {name!r} have no place in {target}", err=True)
    return None
