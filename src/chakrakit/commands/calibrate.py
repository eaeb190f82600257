"""`calibrate`: a profile or a network model from measurements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Required, TypedDict, Unpack

import click

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import Path_
from chakrakit.commands.options import Option, Positional, public
from chakrakit.commands.output import Json, console, print_json, print_table
from chakrakit.errors import ConfigError
from chakrakit.results import counted

if TYPE_CHECKING:
    from chakrakit.machines import CalibrationReport
    from chakrakit.machines.fabric import Machine


class CalibrateOptions(TypedDict, total=False):
    """Options of `calibrate`."""

    output: Required[
        Annotated[
            Path_,
            Option(
                "Where the profile, model or constants go.", flags="-o --output", metavar="FILE"
            ),
        ]
    ]
    nccl_tests: Annotated[
        bool,
        Option(
            "The sources are logs of nccl-tests: make a network model, or with --machine library "
            "constants.",
            False,
        ),
    ]
    collectives: Annotated[
        bool,
        Option(
            "The sources are tables (CSV, Parquet) of measured collectives: make library constants for "
            "--machine.",
            False,
        ),
    ]
    machine: Annotated[
        Machine | str | None,
        Option(
            "Where the collectives ran: a preset or a file. The constants go under `library` in its file.",
            None,
        ),
    ]


@public(CalibrateOptions)
def calibrate(
    *sources: Annotated[
        Path_,
        Positional(
            "Microbenchmark files, AIConfigurator's tables and linked traces; logs of nccl-tests; or tables "
            "of measured collectives with the columns collective, members, bytes and time_us.",
            metavar="SOURCES…",
        ),
    ],
    **options: Unpack[CalibrateOptions],
) -> CalibrationReport:
    """Make a compute profile, a network model or library constants from measurements.

    Examples
    --------
    >>> ck.calibrate("run", output="profile.json").fitted_on  # doctest: +SKIP

    """
    from chakrakit.machines import (
        calibrate_collectives,
        calibrate_network,
        calibrate_profile,
        load_machine,
    )

    paths, target = [Path(source) for source in sources], Path(options["output"])
    machine, logs = options["machine"], options["nccl_tests"]
    if options["collectives"] or (logs and machine is not None):
        if machine is None:
            raise ConfigError(
                "library constants are of a machine; say which one the collectives ran on"
            )
        ran_on = load_machine(machine) if isinstance(machine, str) else machine
        return calibrate_collectives(paths, ran_on, target)
    return calibrate_network(paths, target) if logs else calibrate_profile(paths, target)


@command_of(calibrate)
def command(sources: tuple[str, ...], *, json: Json = False, **options: Any) -> None:
    """Make a profile from SOURCES: microbenchmark files (JSON), AIConfigurator's tables and linked traces.

    The profile says what it was fitted on; `chakra simulate --compute FILE` uses it. With --nccl-tests, a
    network model for `chakra simulate --network-model FILE`. With --collectives, or with --nccl-tests and
    --machine, constants of the communication library, which go under `library` in a machine's file. A
    table has one measurement per row: collective, members, bytes and time_us (or _ns, _ms, _s); or it is
    AIConfigurator's nccl_perf.

    \b
    chakra calibrate microbenchmarks.json -o profile.json
    chakra calibrate systems/data/h200_sxm/vllm/0.24.0 -o profile.json
    chakra calibrate all_reduce.log --nccl-tests -o network.json
    """
    report = calibrate(*sources, **options)
    if json:
        return print_json(report)
    console().print(_headline(report, options["output"]))
    for table in (report.classes, report.ranges, report.collectives):
        if table:
            heads = table[0].__struct_fields__
            print_table(heads, [[_cell(getattr(row, h)) for h in heads] for row in table])
    for what, rows in report.left_out.items():
        click.echo(f"left out: {rows:,} rows of {what}")
    return None


def _headline(report: CalibrationReport, output: str) -> str:
    """What was written, and where it goes."""
    if report.collectives:
        of = counted(len(report.collectives), "collective")
        return f"constants of {of}, for `library` in the machine's file: {output}"
    if report.ranges:
        of = counted(len(report.ranges), "range")
        return f"a network model of {of} of sizes: chakra simulate W --network-model {output}"
    of = counted(len(report.classes), "class", "classes")
    return f"a profile of {of} of operators: chakra simulate W --compute {output}"


def _cell(value: object) -> object:
    return "–" if value is None else f"{value:.3g}" if isinstance(value, float) else value
