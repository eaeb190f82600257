"""`chakra sweep`: a study, here or on a cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chakrakit.cli.shared import console, json_option, print_json, print_table, progress

if TYPE_CHECKING:
    from chakrakit.studies.sweep import SweepResult


@click.command(name="sweep")
@click.argument("path", metavar="STUDY.yaml")
@click.option(
    "-o", "--output", metavar="DIR", help="Where results are kept; by default STUDY.sweep."
)
@click.option(
    "--engine",
    default="local",
    show_default=True,
    metavar="local|ray|dask[:ADDRESS]",
    help="This machine's cores, or a cluster's.",
)
@click.option("--jobs", type=int, metavar="N", help="Points at once; by default one per core.")
@click.option("--retry", is_flag=True, help="Run points that failed again.")
@json_option
def command(
    path: str, output: str | None, engine: str, jobs: int | None, retry: bool, as_json: bool
) -> None:
    """Run every point of a study; what is finished is kept and never run again.

    DIR gets table.parquet (one row per point) and report.html (curves, heat maps, Pareto front). Stop it
    whenever you like: the same command goes on where it was. docs/sweep.md says what a study is.
    """
    from chakrakit.api import sweep

    folder = output or f"{Path(path).with_suffix('')}.sweep"
    try:
        with progress("points") as show:
            result = sweep(path, folder, engine=engine, jobs=jobs, retry=retry, progress=show)
    except KeyboardInterrupt:
        click.echo(f"stopped; finished points are in {folder}, the same command goes on", err=True)
        sys.exit(130)
    if as_json:
        print_json(result)
    else:
        _print(result, Path(folder) / "report.html")


def _print(result: SweepResult, report: Path) -> None:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(result.table)
    best = table.filter(pc.field("fits")).sort_by("step_ns").slice(0, 5)
    names = table.column_names[: table.column_names.index("status")]
    rows = [
        (
            *(str(r[n]) for n in names),
            f"{r['step_ns'] / 1e6:,.3f}",
            f"{r['memory_bytes'] / 2**30:,.1f}",
        )
        for r in best.to_pylist()
    ]
    if rows:
        print_table((*names, "step ms", "GiB"), rows, title="fastest that fit")
    out = console()
    out.print(
        f"{result.points:,} points: {result.done:,} done, {result.failed:,} failed, "
        f"{result.reused:,} from earlier, {result.skipped:,} cannot be"
    )
    out.print(f"{result.table}\n{report}")
