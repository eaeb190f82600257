"""`chakra analyze`: where the time went, what is exposed, who waits for whom, what would help."""

from __future__ import annotations

import click

from chakrakit.cli.shared import (
    console,
    json_option,
    print_json,
    print_recording,
    print_tables,
    progress,
    workers_options,
)


@click.command(name="analyze")
@click.argument("path", metavar="RUN")
@click.option(
    "--faster",
    multiple=True,
    metavar="WHAT=K",
    help="Try WHAT k times faster: compute, communication, copy, host, group:NAME, or a pattern "
    "of operator or kernel names.",
)
@click.option("--peak-tflops", default=0.0, help="The device's peak, for MFU and the roofline.")
@click.option("--peak-gbps", default=0.0, help="Its memory's peak in GB/s.")
@click.option("--ranks", default="", metavar="0,1,…", help="Only these ranks.")
@click.option("--rows", default=12, show_default=True, help="At most this many rows per table.")
@workers_options
@json_option
def command(
    path: str,
    faster: tuple[str, ...],
    peak_tflops: float,
    peak_gbps: float,
    ranks: str,
    rows: int,
    engine: str | None,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Say what happened in RUN: measured, simulated or replayed."""
    from chakrakit.api import analyze
    from chakrakit.insight.rank import parse_ranks
    from chakrakit.trace.memory import said_first

    with progress("analyzing") as show:
        result = analyze(
            path,
            faster=faster,
            peak_tflops=peak_tflops,
            peak_gbps=peak_gbps,
            ranks=parse_ranks(ranks),
            engine=engine,
            jobs=jobs,
            progress=show,
        )
    if as_json:
        return print_json(result)
    print_recording(result.recording)
    if verdict := said_first(result.fits, result.needs_bytes, result.has_bytes):
        console().print(verdict)
    if result.bound:
        console().print(f"bound by: {result.bound}")
    print_tables(result.notes, result.tables(), rows)
    return None
