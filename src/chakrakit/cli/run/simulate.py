"""`chakra simulate`: a workload on a machine that need not exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from chakrakit.cli.run.native import NATIVE_NAMES, native_options, simulate_native, simulate_several
from chakrakit.cli.shared import console, json_option, print_json, print_table

if TYPE_CHECKING:
    from chakrakit.simulator.astra import AstraSimulation


_ASTRA_NAMES = (
    "groups",
    "backend",
    "queues",
    "injection_scale",
    "rendezvous",
    "lenient",
    "astra_log",
)
"""Options that only ASTRA-sim's engine has."""


@click.command(name="simulate")
@click.argument("workloads", metavar="WORKLOAD…", nargs=-1, required=True)
@click.option(
    "--astra",
    nargs=3,
    metavar="SYSTEM NETWORK MEMORY",
    help="Simulate as ASTRA-sim does, with its system JSON, network YAML and memory JSON.",
)
@click.option("--groups", metavar="FILE", help="With --astra: communicator groups, JSON.")
@click.option(
    "--backend",
    type=click.Choice(["unaware", "aware"]),
    default="unaware",
    show_default=True,
    help="With --astra: the network without or with congestion.",
)
@click.option(
    "--queues",
    type=int,
    default=1,
    show_default=True,
    help="With --astra: queues per network dimension.",
)
@click.option(
    "--injection-scale",
    type=float,
    default=1.0,
    show_default=True,
    help="With --astra: multiplies `endpoint-delay`.",
)
@click.option(
    "--rendezvous", is_flag=True, help="With --astra: a send waits until its receive is posted."
)
@click.option(
    "--lenient",
    is_flag=True,
    help="With --astra: give ASTRA-sim's answer also where it is wrong or incomplete.",
)
@click.option("--no-fold", is_flag=True, help="Simulate every rank; the answer is the same.")
@click.option(
    "--astra-log", is_flag=True, help="With --astra: print ASTRA-sim's own summary lines."
)
@click.option("-o", "--output", metavar="RUN", help="Write every node's times as a Run.")
@native_options
@json_option
def command(
    workloads: tuple[str, ...],
    astra: tuple[str, str, str] | None,
    machine: str | None,
    **settings: Any,
) -> None:
    """Simulate WORKLOAD, a prefix of PREFIX.N.et files or anything `chakra info` reads.

    Several are jobs that run on the machine at the same time: each gets a slowdown against running
    alone, and -o a folder with a Run for each.

    With --machine, on any machine; with --astra, as ASTRA-sim does.
    """
    measured = settings["compute"] == settings["communication"] == "measured"
    if (astra is not None and machine is not None) or (
        astra is None and machine is None and not measured
    ):
        raise click.UsageError(
            "say what to simulate on: --machine NAME_OR_FILE, or --astra SYSTEM NETWORK MEMORY"
        )
    _check_side(_ASTRA_NAMES if astra is None else NATIVE_NAMES, astra is None)
    if astra is None:
        names = {"no_fold", "output", "as_json", *NATIVE_NAMES}
        chosen = {n: v for n, v in settings.items() if n in names}
        if len(workloads) > 1:
            if machine is None:
                raise click.UsageError("several jobs run on a machine: give --machine")
            return simulate_several(workloads, machine=machine, **chosen)
        return simulate_native(workloads[0], machine=machine, **chosen)
    if len(workloads) > 1:
        raise click.UsageError("several jobs run on a machine: give --machine instead of --astra")
    return _simulate_astra(
        workloads[0], astra, **{n: v for n, v in settings.items() if n not in NATIVE_NAMES}
    )


def _check_side(names: Sequence[str], native: bool) -> None:
    """An option of the other simulator would be dropped in silence."""
    context = click.get_current_context()
    for parameter in context.command.params:
        typed = context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
        if typed and parameter.name in names:
            its, other = ("--astra", "--machine") if native else ("--machine", "--astra")
            raise click.UsageError(f"{parameter.opts[0]} is for {its}; leave it out with {other}")


def _simulate_astra(
    workload: str,
    files: tuple[str, str, str],
    *,
    no_fold: bool,
    astra_log: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    from chakrakit.api import simulate_as_astra

    result = simulate_as_astra(workload, files, fold=not no_fold, **settings)
    for key in result.config.ignored:
        click.echo(f"note: {key}", err=True)
    if astra_log:
        _print_log(result, err=as_json)
    if as_json:
        print_json(result.facts())
    elif not astra_log:
        _print_table(result)


def _print_log(result: AstraSimulation, *, err: bool) -> None:
    from chakrakit.simulator.astra import log_lines

    for line in log_lines(result):
        click.echo(line, err=err)


def _print_table(result: AstraSimulation) -> None:
    from chakrakit.simulator.astra import about, rows

    print_table(("ranks", "cycles (ns)", "exposed"), rows(result))
    console().print(about(result))
