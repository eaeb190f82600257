"""`chakra compare`: what differs between two runs, and what explains it."""

from __future__ import annotations

import sys

import click

from chakrakit.cli.shared import console, json_option, print_json, print_tables


@click.command(name="compare")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option(
    "--also-a", multiple=True, metavar="RUN", help="More runs of A's kind: they give the noise."
)
@click.option("--also-b", multiple=True, metavar="RUN", help="More runs of B's kind.")
@click.option(
    "--fail-if",
    "rules",
    multiple=True,
    metavar="RULE",
    help="Exit 1 if B is worse: 'step>3%', 'exposed_comm>2ms', 'memory>5%'.",
)
@click.option("--rows", default=15, show_default=True, help="At most this many rows per table.")
@json_option
def command(
    a: str,
    b: str,
    also_a: tuple[str, ...],
    also_b: tuple[str, ...],
    rules: tuple[str, ...],
    rows: int,
    as_json: bool,
) -> None:
    """Compare run B with run A: the step, what explains its change, operators, modules, groups."""
    from chakrakit.api import compare

    result = compare([a, *also_a], [b, *also_b], fail_if=rules)
    if as_json:
        print_json(result)
    else:
        if result.warning:
            console().print(f"warning: {result.warning}")
        print_tables(result.notes, result.tables(), rows)
    for why in result.broken:
        click.echo(f"fails: {why}", err=True)
    if result.broken:
        sys.exit(1)
