"""`chakra link`: from PyTorch's files to a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from chakrakit.cli.shared import console, engine_option, json_option, print_json, print_table

if TYPE_CHECKING:
    from chakrakit.sources.pytorch.linking import LinkReport, RankReport


@click.command(name="link")
@click.argument("inputs", metavar="IN…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="The run.")
@click.option(
    "--times",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    help="Kineto recorded without the observer: times from here, one file per rank.",
)
@click.option(
    "--undilate",
    is_flag=True,
    help="Take out what recording cost the host even where nothing says how much that is.",
)
@click.option(
    "--as-recorded", is_flag=True, help="Leave the times as recorded, with what recording cost."
)
@click.option(
    "--memory",
    default=8.0,
    show_default=True,
    help="GiB that ranks linked at the same time may take.",
)
@click.option("--jobs", default=0, help="At most this many processes; 0 for one per core.")
@engine_option
@click.option(
    "--report", "full", is_flag=True, help="Show everything that was matched, repaired and dropped."
)
@json_option
def command(
    inputs: tuple[Path, ...],
    output: Path,
    times: tuple[Path, ...],
    undilate: bool,
    as_recorded: bool,
    memory: float,
    jobs: int,
    engine: str | None,
    full: bool,
    as_json: bool,
) -> None:
    """Link recordings of any number of ranks into a run.

    IN is a file, or a directory with the files of all ranks, plain or .gz: PyTorch's observer and
    Kineto (or either alone, with the captures of its CUDA graphs), an SQLite export of Nsight Systems,
    rocprofv3's JSON, XLA's profile, or communication alone from PyTorch's flight recorder or NCCL
    Inspector. Files are recognized and put together by their content.

    The cost of recording is taken out of the host's times wherever it is known: from a card, from a
    second recording without the observer (kineto_only*, times_*), or from work on a device.
    """
    from chakrakit.api import link

    report = link(
        *inputs,
        output=output,
        memory=memory,
        jobs=jobs,
        engine=engine,
        times=times,
        undilate=undilate,
        as_recorded=as_recorded,
    ).report
    if as_json:
        return print_json(report)
    print_summary(report, output)
    if full:
        for rank in report.ranks:
            _details(rank)
    return None


def print_summary(report: LinkReport, output: Path) -> None:
    """A warning if there is one, one row per rank, and what concerns them all."""
    out = console()
    if report.warning:
        out.print(f"warning: {report.warning}")
    rows = [
        (
            r.rank,
            f"{r.host_ops.linked:,}/{r.host_ops.in_:,}",
            f"{r.device_activities.linked:,}/{r.device_activities.in_:,}",
            sum(r.collectives.values()) + sum(r.p2p.values()),
            f"{r.measured_span_ns / 1e6:,.3f}",
            f"{r.scheduled_span_ns / 1e6:,.3f}",
            r.edge_violations,
        )
        for r in report.ranks
    ]
    head = ("rank", "operators", "device", "comm", "measured ms", "scheduled ms", "violations")
    print_table(head, rows)
    if report.recording is not None and report.step_ns:
        out.print(report.recording.sentence)
    skew = report.clock.get("residual_skew_ns") or {}
    if skew:
        out.print(f"clocks: {report.clock['rule']}, residual skew {skew['median'] / 1e3:,.1f} µs")
    for path, why in report.ignored_files.items():
        out.print(f"not used: {path}: {why}")
    for rank in report.ranks:
        for warning in rank.warnings:
            out.print(f"rank {rank.rank}: {warning}")
    out.print(f"wrote {output}")


def _details(rank: RankReport) -> None:
    sections = {
        "matched by": rank.matched_by,
        "edges": rank.edges,
        "collectives": rank.collectives,
        "messages": rank.p2p,
        "waits": rank.waits,
        "repaired": rank.repaired,
        "dropped": rank.dropped,
        "inferred": rank.inferred,
        "not nodes": rank.left_out_events,
        "start error (ns)": rank.start_error_ns,
    }
    rows = [(title, key, n) for title, counts in sections.items() for key, n in counts.items()]
    rows += [("device", "orphans", rank.orphans)]
    rows += [("device", "programmatic overlaps", rank.programmatic_overlaps)]
    print_table(("what", "which", "count"), rows, title=f"rank {rank.rank}")
