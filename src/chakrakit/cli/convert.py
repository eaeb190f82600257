"""`chakra convert`: between formats, one file or all ranks."""

from __future__ import annotations

import click

from chakrakit.cli.output import progress


@click.command(name="convert")
@click.argument("path", metavar="IN")
@click.argument("target", metavar="OUT")
def command(path: str, target: str) -> None:
    """Convert IN to OUT; OUT's name says the format.

    \b
    out.et  out.et.gz  out.et.zst   Chakra protobuf
    out.json                        one JSON document, lossless
    out.feeder.json                 the feeder's workload_graph
    out.parquet                     columns
    out.N.et (or any of the above)  a file a rank, groups in out.json
    out                             a directory with everything

    A single file is converted in pieces: it may be larger than memory, or come through a pipe.
    """
    from chakrakit.trace.convert import convert

    left_out = convert(path, target, lambda total: progress("converting", total))
    for name, count in left_out.items():
        click.echo(f"note: {count:,} values of {name!r} have no place in {target}", err=True)
