"""`collect`: record a PyTorch program and link what comes out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import Path_
from chakrakit.commands.link import print_summary
from chakrakit.commands.options import Option, Positional, picked, public
from chakrakit.commands.output import Json, print_json

if TYPE_CHECKING:
    from chakrakit.sources.pytorch import Collection


class CollectOptions(TypedDict, total=False):
    """Options of `collect`."""

    two_pass: Annotated[
        bool | None,
        Option(
            "Times from Kineto alone, structure from a second window; the default where steps allow it.",
            None,
            flags="--two-pass/--one-pass",
        ),
    ]
    stacks: Annotated[bool, Option("Record Python's stack and modules; costs time.", False)]
    wait_s: Annotated[
        float,
        Option("Seconds that rank 0 waits for the files of the others.", 120.0, in_shell=False),
    ]


@public(CollectOptions)
def collect(
    directory: Annotated[
        Path_, Option("The run; raw files stay beside it, in OUTPUT-raw.", flags="-o --output")
    ],
    steps: Annotated[
        tuple[int, int] | str,
        Option("The first step to record and the one after the last.", metavar="A:B"),
    ] = "10:12",
    **options: Unpack[CollectOptions],
) -> Collection:
    """Record steps of the surrounding program and leave a linked run in `directory`.

        with chakrakit.collect("run", steps=(10, 12)) as c:
            for batch in data:
                train(batch)
                c.step()

    Every rank records itself; rank 0 waits for the others' files and links them all.

    Returns
    -------
    What to enter with `with`; its `report` is what `chakra link` says, on rank 0, after it is left.

    Examples
    --------
    >>> with ck.collect("run", steps=(10, 12)) as c:  # doctest: +SKIP
    ...     train(c.step)

    """
    from chakrakit.sources.pytorch import Collection

    return Collection(directory, steps, **options)


@command_of(collect, ignore_unknown_options=True)
def command(
    program: Annotated[
        tuple[str, ...], Positional("What to run, after --.", metavar="PROGRAM…", words=-1)
    ],
    *,
    directory: Annotated[
        str, Option("The run; raw files stay beside it, in OUTPUT-raw.", flags="-o --output")
    ] = "collected",
    step_ends: Annotated[
        str,
        Option(
            "A function whose return ends a step, instead of the optimizer's: generate, Model.generate "
            "or package.module.function. For programs that infer.",
            metavar="CALL",
        ),
    ] = "",
    json: Json = False,
    **options: Any,
) -> None:
    """Run PROGRAM (after --) unchanged and record some of its steps on every rank.

    A step ends with the optimizer's step, or when the function that --step-ends names returns; step 0 is
    over before it can be recorded.

    \b
    chakra collect --steps 10:12 -- torchrun train.py
    chakra collect --steps 2:4 --step-ends generate -- python serve.py
    """
    from chakrakit.sources.pytorch import collect_command

    target = Path(directory)
    settings = picked(collect_command, options) | {"step_ends": step_ends}
    report = collect_command(program, target, **settings)
    if json:
        return print_json(report)
    return print_summary(report, target)
