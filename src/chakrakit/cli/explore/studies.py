"""`chakra studies`: what became of published systems, as it was recorded."""

from __future__ import annotations

import click

from chakrakit.cli.shared import json_option, print_json, print_table


@click.command(name="studies")
@click.option("--family", metavar="F", help="Only this family, such as serving.")
@json_option
def command(family: str | None, as_json: bool) -> None:
    """List the studies of published systems and their verdicts; nothing is run.

    Systems that cannot be studied come last, with the reason.
    """
    from chakrakit.api import studies

    lines = studies(family)
    if as_json:
        return print_json(lines)
    rows = [
        (
            line.id,
            line.system,
            line.family,
            line.verdict,
            " to ".join("∞" if v is None else f"{v:g}" for v in line.figures.get("gain", ())),
            line.why[0] if line.verdict == "no study" else line.claim,
        )
        for line in lines
    ]
    print_table(
        ("id", "system", "family", "verdict", "gain", "claim, or why there is no study"), rows
    )
    return None
