"""`live`: programs that decide while the simulation runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, Unpack

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import Pairs, Path_, mapping_of, pairs_of
from chakrakit.commands.options import Option, Positional, public
from chakrakit.commands.output import Json, console, print_json, print_table

if TYPE_CHECKING:
    from chakrakit.machines.fabric import Machine
    from chakrakit.simulator.live import LiveResult


class LiveOptions(TypedDict, total=False):
    """Options of `run_program`."""

    machine: Annotated[
        str | Machine | None,
        Option("A machine's name or file; by default one device.", None, metavar="M"),
    ]
    seed: Annotated[int, Option("Seed of all actors: the same seed gives the same run.", 0)]
    set: Annotated[
        Pairs, Option("A setting of the program.", (), metavar="NAME=VALUE", parse=pairs_of)
    ]
    until: Annotated[float | None, Option("Stop at this time.", None, metavar="NS", least=0)]
    compute: Annotated[
        str, Option("Work model of FLOPs: auto, roofline, or a profile.", "roofline")
    ]
    network: Annotated[
        Literal["flow", "analytical"], Option("Whether transfers share links.", "flow")
    ]
    share_compute: Annotated[bool, Option("Let kernels of a device share it evenly.", False)]
    output: Annotated[
        Path_ | None, Option("Write the Run.", None, flags="-o --output", metavar="RUN")
    ]


@public(LiveOptions)
def run_program(
    program: Annotated[
        Path_ | Callable[..., object],
        Positional(
            "A Python file with `program(world, …)`, which is run; in Python also that function.",
            metavar="PROGRAM.py",
        ),
    ],
    **options: Unpack[LiveOptions],
) -> LiveResult:
    """Run programs that react, on a machine that need not exist (docs/programs.md).

    Returns
    -------
    A `LiveResult`: its summary, what programs returned, and `run()`, with an actor as each rank.

    Examples
    --------
    >>> from chakrakit.simulator import live
    >>> def nap(me):
    ...     yield live.sleep(5)
    >>> ck.run_program(lambda world: world.actor(nap)).end_ns
    5.0

    """
    from chakrakit.simulator.live import World, populate, read_program_file
    from chakrakit.trace.storage import write

    entry = program if callable(program) else read_program_file(os.fspath(program))
    world = World(
        options["machine"],
        seed=options["seed"],
        compute=options["compute"],
        network=options["network"],
        share_compute=options["share_compute"],
    )
    populate(world, entry, mapping_of(options["set"]))
    result = world.run(options["until"])
    if options["output"] is not None:
        write(result.run(), options["output"])
    return result


@command_of(run_program)
def command(*, json: Json = False, **options: Any) -> None:
    """Run programs that react: actors that send, wait, compute and decide while the simulation runs.

    PROGRAM.py is a program of your own, and is run; docs/programs.md says what it can do. The same seed
    gives the same run. With -o RUN the actors come out as ranks, for analyze, report and view.

    \b
    chakra live consensus.py --machine dgx-h100
    chakra live queue.py --machine dgx-h100:2 --seed 7 -o run
    """
    result = run_program(**options)
    if json:
        return print_json(result.summary)
    return _print(result)


_SHOWN = 20
"""Actors whose programs' results are printed: what a screen holds beside the figures."""


def _print(result: LiveResult) -> None:
    from chakrakit.results import energy_text

    out, s = console(), result.summary
    out.print(
        f"{s.end_ns / 1e6:,.6g} ms, {s.actors:,} actors, {s.verbs:,} verbs, {s.messages:,} messages of "
        f"{s.message_bytes:,.0f} bytes"
    )
    if s.energy_joules is not None:
        out.print(energy_text(s.energy_joules))
    else:
        out.print(f"energy is not known: {s.energy_unknown}")
    for name in s.faults:
        out.print(f"fault: {name}")
    if s.pools:
        head = ("pool", "places", "uses", "refused", "changes", "busy", "mean wait ms")
        rows = [
            (
                p.name,
                str(p.width),
                f"{p.uses:,}",
                f"{p.refused:,}",
                f"{p.changes:,}",
                f"{p.busy_share:.1%}",
                f"{p.mean_wait_ns / 1e6:,.4g}",
            )
            for p in s.pools
        ]
        print_table(head, rows)
    returned = [(name, value) for name, value in result.returned.items() if value is not None]
    for name, value in returned[:_SHOWN]:
        out.print(f"{name}: {value}")
    if more := len(returned) - _SHOWN if len(returned) > _SHOWN else 0:
        out.print(f"… and what {more:,} more actors returned; --json has all")
