"""`chakra sweep`: a study, here or on a cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chakrakit.cli.shared import console, json_option, print_json, print_table, progress

if TYPE_CHECKING:
    import pyarrow as pa

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
    import pyarrow.parquet as pq

    from chakrakit.studies.sweep import serving_findings

    table = pq.read_table(result.table)
    if serving_findings.is_serving(table):
        _print_served(table)
    else:
        _print_steps(table)
    out = console()
    out.print(
        f"{result.points:,} points: {result.done:,} done, {result.failed:,} failed, "
        f"{result.reused:,} from earlier, {result.skipped:,} cannot be"
    )
    out.print(f"{result.table}\n{report}")


def _print_steps(table: pa.Table) -> None:
    import pyarrow.compute as pc

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


def _print_served(table: pa.Table) -> None:
    from chakrakit.studies.sweep import findings, serving_findings

    names = findings.varied(table)
    figures = ("output_tokens_per_s_per_device", "goodput", *serving_findings.LATENCIES)
    rows = [
        (*(str(r[n]) for n in names), *(f"{r[f]:,.1f}" for f in figures))
        for r in serving_findings.served_rows(table)[:5]
    ]
    head = ("tokens/s per device", "goodput /s", "TTFT p99 ms", "TPOT p99 ms", "e2e p99 ms")
    if rows:
        print_table((*names, *head), rows, title="best by throughput per device")
