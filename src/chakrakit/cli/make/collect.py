"""`chakra collect`: record a PyTorch program and link what comes out."""

from __future__ import annotations

from pathlib import Path

import click

from chakrakit.cli.shared import json_option, print_json


@click.command(name="collect", context_settings={"ignore_unknown_options": True})
@click.option(
    "--steps",
    default="10:12",
    show_default=True,
    help="The first step to record and the one after the last.",
)
@click.option(
    "-o",
    "--output",
    default="collected",
    show_default=True,
    type=click.Path(path_type=Path),
    help="The run; raw files stay beside it, in OUTPUT-raw.",
)
@click.option(
    "--two-pass/--one-pass",
    default=None,
    help="Times from Kineto alone, structure from a second window; the default where steps allow it.",
)
@click.option("--stacks", is_flag=True, help="Record Python's stack and modules; costs time.")
@json_option
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    steps: str,
    output: Path,
    two_pass: bool | None,
    stacks: bool,
    as_json: bool,
    program: tuple[str, ...],
) -> None:
    """Run PROGRAM (after --) unchanged and record some of its steps on every rank.

    A step ends with the optimizer's step; step 0 is over before it can be recorded.
    Example: chakra collect --steps 10:12 -- torchrun train.py
    """
    from chakrakit.cli.make.link import print_summary
    from chakrakit.sources.pytorch.collect import collect_command

    report = collect_command(program, output, steps, two_pass=two_pass, stacks=stacks)
    if as_json:
        return print_json(report)
    print_summary(report, output)
    return None
