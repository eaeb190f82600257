"""`chakra calibrate`: a profile or a network model from measurements."""

from __future__ import annotations

import click

from chakrakit.cli.shared import json_option, print_json, print_table


@click.command(name="calibrate")
@click.argument("sources", nargs=-1, required=True)
@click.option(
    "--nccl-tests",
    is_flag=True,
    help="SOURCES are nccl-tests logs; makes a network model, with --machine library constants.",
)
@click.option(
    "--collectives",
    is_flag=True,
    help="SOURCES are tables (CSV, Parquet) of measured collectives; makes library constants.",
)
@click.option("--machine", help="Where the collectives ran: a preset or a file.")
@click.option("-o", "--output", metavar="FILE", required=True, help="Where the profile goes.")
@json_option
def command(
    sources: tuple[str, ...],
    nccl_tests: bool,
    collectives: bool,
    machine: str | None,
    output: str,
    as_json: bool,
) -> None:
    """Make a profile from SOURCES: microbenchmark files (JSON) and linked traces.

    The profile says what it was fitted on; `chakra simulate --compute FILE` uses it. With --nccl-tests, a
    network model for `chakra simulate --network-model FILE`. With --collectives, or with --nccl-tests and
    --machine, constants of the communication library, which go under `library` in a machine's file. A
    table has one measurement per row: collective, members, bytes and time_us (or _ns, _ms, _s).
    """
    from chakrakit.api import calibrate

    report = calibrate(
        *sources, output=output, nccl_tests=nccl_tests, collectives=collectives, machine=machine
    )
    if as_json:
        return print_json(report)
    for table in (report.classes, report.ranges, report.collectives):
        if table:
            heads = table[0].__struct_fields__
            print_table(heads, [[_cell(getattr(row, h)) for h in heads] for row in table])
    return None


def _cell(value: object) -> object:
    return "–" if value is None else f"{value:.3g}" if isinstance(value, float) else value
