"""`chakra study`: a published idea against comparators that are tuned as carefully."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from chakrakit.cli.shared import (
    console,
    json_option,
    print_json,
    print_table,
    progress,
    workers_options,
)

if TYPE_CHECKING:
    from chakrakit.published import StudyResult


@click.command(name="study")
@click.argument("id")
@click.option("--quick", is_flag=True, help="Fewer cases and seeds, in seconds.")
@click.option(
    "-o", "--output", metavar="DIR", help="Keep finished points, and write table, page and chart."
)
@workers_options
@json_option
def command(
    id: str, quick: bool, output: str | None, engine: str | None, jobs: int | None, as_json: bool
) -> None:
    """Run the study ID of a published system; `chakra studies` lists them.

    Every side chooses its settings on some seeds and is judged on others; the verdict is computed. With
    -o DIR finished points are kept: the same command goes on where it was stopped.
    """
    from chakrakit.api import study

    with progress("points") as show:
        result = study(id, quick=quick, engine=engine, jobs=jobs, output=output, progress=show)
    if as_json:
        print_json(result)
    else:
        _print(result)


def _print(result: StudyResult) -> None:
    out = console()
    out.print(f"{result.id} {result.system}: {result.verdict}")
    for reason in result.why:
        out.print(f"- {reason}")
    fields = list(dict.fromkeys(name for c in result.cases for name in c.case))
    rows = [
        (
            *(str(c.case.get(f, "")) for f in fields),
            c.against,
            f"{c.gain:.3f}",
            f"{c.low:.3f} to {c.high:.3f}",
            ", ".join([*(["gone"] if c.gone else []), *(f"{s} collapsed" for s in c.collapsed)]),
        )
        for c in result.cases
    ]
    print_table((*fields, "against", "gain", "95 %", ""), rows)
    for p in result.predictions:
        out.print(f"{p.outcome}: {p.text}")
    for a in result.ablations:
        out.print(f"without {a.without}: {a.verdict}, gain {a.least:.3g} to {a.most:.3g}")
