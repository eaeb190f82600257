"""`chakra calibrate`: a profile or a network model from measurements."""

from __future__ import annotations

from pathlib import Path

import click

from chakrakit.cli.shared import json_option, print_json, print_table


@click.command(name="calibrate")
@click.argument("sources", nargs=-1, required=True)
@click.option(
    "--nccl-tests", is_flag=True, help="SOURCES are nccl-tests logs; makes a network model."
)
@click.option("-o", "--output", metavar="FILE", required=True, help="Where the profile goes.")
@json_option
def command(sources: tuple[str, ...], nccl_tests: bool, output: str, as_json: bool) -> None:
    """Make a profile from SOURCES: microbenchmark files (JSON) and linked traces.

    The profile says what it was fitted on; `chakra simulate --compute FILE` uses it. With --nccl-tests, a
    network model for `chakra simulate --network-model FILE`.
    """
    from chakrakit.machines.calibrate import calibrate_network, calibrate_profile

    make = calibrate_network if nccl_tests else calibrate_profile
    report = make([Path(s) for s in sources], Path(output))
    if as_json:
        return print_json(report)
    for table in (report.classes, report.ranges):
        if table:
            heads = table[0].__struct_fields__
            print_table(heads, [[_cell(getattr(row, h)) for h in heads] for row in table])
    return None


def _cell(value: object) -> object:
    return "–" if value is None else f"{value:.3g}" if isinstance(value, float) else value
