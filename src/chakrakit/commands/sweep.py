"""`sweep`: a study, here or on a cluster."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import click

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import Path_, ProgressOption, progress_of
from chakrakit.commands.options import Option, Positional, public
from chakrakit.commands.output import Json, console, print_json, print_table, progress

if TYPE_CHECKING:
    import pyarrow as pa

    from chakrakit.exploration.sweep import SweepResult


class SweepOptions(ProgressOption, total=False):
    """Options of `sweep`."""

    engine: Annotated[
        str,
        Option(
            "This machine's cores, or a cluster's.", "local", metavar="local|ray|dask[:ADDRESS]"
        ),
    ]
    jobs: Annotated[
        int | None, Option("Points at once; by default one per core.", None, metavar="N")
    ]
    retry: Annotated[bool, Option("Run points that failed again.", False)]
    allow_programs: Annotated[bool, Option("Run the program that a study captures.", False)]


@public(SweepOptions)
def sweep(
    study: Annotated[
        Path_,
        Positional("The study's file; docs/sweep.md says what it holds.", metavar="STUDY.yaml"),
    ],
    output: Annotated[
        Path_ | None,
        Option(
            "The folder of the results, by default STUDY.sweep; it gets a table and a page.",
            flags="-o --output",
            metavar="DIR",
        ),
    ] = None,
    **options: Unpack[SweepOptions],
) -> SweepResult:
    """Run every point of a study; what is finished is kept and never run again.

    Examples
    --------
    >>> ck.sweep("study.yaml").failed  # doctest: +SKIP
    0

    """
    from chakrakit.exploration.sweep import read_study
    from chakrakit.exploration.sweep import sweep as run_sweep
    from chakrakit.views import write_sweep_report

    loaded, folder = read_study(os.fspath(study)), _folder(study, output)
    options["progress"] = progress_of(options)
    result = run_sweep(loaded, folder, **options)  # type: ignore[arg-type]  # progress is there
    write_sweep_report(loaded.name, result.table, folder / "report.html")
    return result


def _folder(study: Path_, output: Path_ | None) -> Path:
    return Path(output or f"{Path(study).with_suffix('')}.sweep")


@command_of(sweep)
def command(study: str, *, output: str | None, json: Json = False, **options: Any) -> None:
    """Run every point of a study; what is finished is kept and never run again.

    DIR gets table.parquet (one row per point) and report.html (curves, heat maps, Pareto front). Stop it
    whenever you like: the same command goes on where it was. docs/sweep.md says what a study is.

    \b
    chakra sweep study.yaml
    chakra sweep study.yaml -o results --jobs 4
    """
    folder = _folder(study, output)
    try:
        with progress("points") as show:
            result = sweep(study, folder, progress=show, **options)
    except KeyboardInterrupt:
        click.echo(f"stopped; finished points are in {folder}, the same command goes on", err=True)
        sys.exit(130)
    if json:
        return print_json(result)
    return _print(result, folder / "report.html")


def _print(result: SweepResult, report: Path) -> None:
    import pyarrow.parquet as pq

    from chakrakit.exploration.sweep import findings

    table = pq.read_table(result.table)
    if findings.is_serving(table):
        _print_served(table)
    else:
        _print_steps(table)
    out = console()
    out.print(
        f"{result.points:,} points: {result.done:,} done, {result.failed:,} failed, "
        f"{result.reused:,} from earlier, {result.skipped:,} cannot be"
        + (f"; {result.over_memory:,} do not fit" if result.over_memory else "")
    )
    out.print(f"{result.table}\n{report}")


_LISTED = 5
"""Points of the table that is printed; the file and the page have all."""


def _of(points: int) -> str:
    return f", {_LISTED} of {points:,}" if points > _LISTED else ""


def _print_steps(table: pa.Table) -> None:
    import pyarrow.compute as pc

    from chakrakit.exploration.sweep import findings

    fitting = table.filter(pc.field("fits")).sort_by("step_ns")
    best = fitting.slice(0, _LISTED)
    names = table.column_names[: table.column_names.index("status")]
    rows = [
        (
            *(str(r[n]) for n in names),
            f"{r['step_ns'] / 1e6:,.3f}",
            findings.bounds_text(r),
            f"{r['memory_bytes'] / 2**30:,.1f}",
        )
        for r in best.to_pylist()
    ]
    if rows:
        heads = (*names, "step ms", "90 of 100 measured", "GiB")
        print_table(heads, rows, title=f"fastest that fit{_of(len(fitting))}")
    elif (
        too_large := table.filter(pc.field("status") == "done").sort_by("memory_bytes").to_pylist()
    ):
        least = too_large[0]
        where = ", ".join(f"{n} {least[n]}" for n in names)
        console().print(
            f"NO POINT FITS: the smallest ({where}) needs {least['memory_bytes'] / 2**30:,.1f} GiB of each "
            "device; give the study another plan (data: fsdp, more tp or pp), more ranks or other machines"
        )
    if rungs := sorted({r for r in table["rung"].to_pylist() if r}):
        several = len(set(table["machine"].to_pylist())) > 1
        common = ", the highest rung that all machines have" if several and len(rungs) == 1 else ""
        console().print(f"computation by {', '.join(rungs)}{common}")


def _print_served(table: pa.Table) -> None:
    from chakrakit.exploration.sweep import findings
    from chakrakit.results import milliseconds_text

    names, served = findings.varied(table), findings.served_rows(table)
    figures = ("output_tokens_per_s_per_device", "goodput", *findings.LATENCIES)
    rows = [
        (
            *(str(r[n]) for n in names),
            *("–" if r[f] is None else milliseconds_text(r[f]) for f in figures),
        )
        for r in served[:_LISTED]
    ]
    head = ("tokens/s per device", "goodput /s", "TTFT p99 ms", "TPOT p99 ms", "e2e p99 ms")
    if rows:
        print_table((*names, *head), rows, title=f"best by throughput per device{_of(len(served))}")
