"""`simulate --astra`: a workload as ASTRA-sim runs it, without importing the native simulator."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, Unpack

import click

from chakrakit.commands.inputs import Path_, traces_of
from chakrakit.commands.options import Option, Positional, picked, public, settings_of
from chakrakit.commands.output import console, print_json, print_table
from chakrakit.errors import ConfigError

if TYPE_CHECKING:
    from chakrakit.commands.inputs import Traces
    from chakrakit.simulator.astra import AstraSimulation

AstraOption = partial(Option, group="With --astra")


class RunOptions(TypedDict, total=False):
    """What both simulators have."""

    output: Annotated[
        Path_ | None,
        Option(
            "Write every node's times as a Run; of several jobs, a folder with a Run for each.",
            None,
            flags="-o --output",
            metavar="RUN",
            on_card=False,
        ),
    ]
    fold: Annotated[
        bool,
        Option(
            "Simulate ranks that behave alike once; the answer is the same.", True, on_card=False
        ),
    ]


class AstraSettings(TypedDict, total=False):
    """What only ASTRA-sim's engine has."""

    groups: Annotated[Path_ | None, AstraOption("Communicator groups, JSON.", None, metavar="FILE")]
    backend: Annotated[
        Literal["unaware", "aware"],
        AstraOption("The network without or with congestion.", "unaware"),
    ]
    queues: Annotated[int, AstraOption("Queues per network dimension.", 1)]
    injection_scale: Annotated[float, AstraOption("Multiplies `endpoint-delay`.", 1.0)]
    rendezvous: Annotated[bool, AstraOption("A send waits until its receive is posted.", False)]
    lenient: Annotated[
        bool, AstraOption("Give ASTRA-sim's answer also where it is wrong or incomplete.", False)
    ]


class AstraRunOptions(RunOptions, AstraSettings, total=False):
    """All options of a simulation as ASTRA-sim does it."""


@public(AstraRunOptions)
def simulate_as_astra(
    workload: Annotated[Traces, Positional("A path, a TraceSet or a Run.")],
    files: Annotated[
        Sequence[Path_], Positional("ASTRA-sim's system JSON, network YAML and memory JSON.")
    ],
    **options: Unpack[AstraRunOptions],
) -> AstraSimulation:
    """Simulate a workload as ASTRA-sim does: what `simulate` does with `astra`."""
    from chakrakit.simulator.astra import AstraOptions, read_config, simulate

    if len(files) != 3:
        raise ConfigError(f"astra has {len(files)} files; give the system, the network, the memory")
    groups = options["groups"]
    system, network, memory = (os.fspath(path) for path in files)
    config = read_config(system, network, memory, None if groups is None else os.fspath(groups))
    traces = os.fspath(workload) if isinstance(workload, str | os.PathLike) else workload
    simulation = simulate(traces, config, AstraOptions(**picked(AstraOptions, options)))
    if options["output"] is not None:
        _write(simulation, workload, options["output"], settings_of(AstraRunOptions, options))
    return simulation


def _write(
    simulation: AstraSimulation, workload: Traces, output: Path_, settings: dict[str, Any]
) -> None:
    from chakrakit.simulator.astra import to_run
    from chakrakit.trace.storage import write

    run = to_run(simulation, traces_of(workload))
    write(run.with_card(run.card.replace(settings=settings | run.card.settings)), output)


def print_astra(simulation: AstraSimulation, *, json: bool, astra_log: bool) -> None:
    """Cycles of all ranks, and on request ASTRA-sim's own lines."""
    from chakrakit.simulator.astra import about, rows

    for key in simulation.config.ignored:
        click.echo(f"note: {key}", err=True)
    if astra_log:
        from chakrakit.simulator.astra import log_lines  # needs Arrow

        for line in log_lines(simulation):
            click.echo(line, err=json)
    if json:
        print_json(simulation.facts())
    elif not astra_log:
        print_table(("ranks", "cycles (ns)", "exposed"), rows(simulation))
        console().print(about(simulation))
