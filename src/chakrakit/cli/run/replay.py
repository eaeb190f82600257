"""`chakra replay`: a trace on real hardware."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chakrakit.cli.shared import console, json_option, print_json, print_recording, print_table

if TYPE_CHECKING:
    from chakrakit.replayer.run import RankResult, ReplayReport

_SHOWN = 12


@click.command(name="replay")
@click.argument("trace", metavar="[TRACE]", default="-")
@click.option(
    "--mode",
    type=click.Choice(["full", "compute", "comm", "emulate"]),
    default="full",
    show_default=True,
    help="All operators, no communication, communication alone, or "
    "communication with waits in place of compute.",
)
@click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    default="cpu",
    show_default=True,
    help="Where to run.",
)
@click.option("--nproc", default=0, help="Ranks; by default as many as were recorded.")
@click.option(
    "--iterations",
    default=10,
    show_default=True,
    type=click.IntRange(1),
    help="How often the step is timed.",
)
@click.option(
    "--warmup",
    default=3,
    show_default=True,
    type=click.IntRange(0),
    help="Iterations that are not timed.",
)
@click.option("--step", default=-1, help="Which recorded step; by default the last.")
@click.option("--gaps", is_flag=True, help="Keep the host's own time between operators.")
@click.option(
    "--shrink",
    type=click.Choice(["keep", "scale"]),
    default="keep",
    show_default=True,
    help="In a group with fewer members: keep each one's part, or the whole.",
)
@click.option("--backend", default="", help="gloo or nccl; by default what suits the device.")
@click.option("--timeout", default=300.0, show_default=True, help="Seconds to wait for a rank.")
@click.option(
    "--export",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write plans and runner; python DIR/run.py runs them with PyTorch alone.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="RUN", help="Write the replayed run."
)
@json_option
def command(
    trace: str, folder: Path | None, output: Path | None, as_json: bool, **settings: Any
) -> None:
    """Replay TRACE: a run, files of PyTorch's profiler, a generated trace, or an exported folder.

    Without TRACE it is read from a pipe. An exported folder must have been run.

    Says how much was replayed and what stood in for the rest.
    """
    from chakrakit.api import replay

    report = replay(trace, export=folder, output=output, **settings)
    if folder is not None:
        return console().print(f"wrote {folder}: python {folder}/run.py")
    if report is None:
        return None  # another rank of torchrun's reports
    if as_json:
        return print_json(report)
    return _show(report, output)


def _show(report: ReplayReport, output: Path | None) -> None:
    print_recording(report.recording)
    head = ("rank", "plays", "step ms", "p10", "p90", "cpu ms", "kernels ms", "coverage")
    print_table(head, [_rank_row(rank) for rank in report.ranks])
    out = console()
    step, share = report.step_ns, report.coverage
    out.print(
        f"step {step.median / 1e6:,.3f} ms over {report.iterations} iterations "
        f"({step.p10 / 1e6:,.3f} to {step.p90 / 1e6:,.3f})"
    )
    out.print(f"replayed: {share.count:.1%} of operators, {share.time:.1%} of their time")
    if report.recorded is not None:
        out.print(report.recorded.sentence)
    if report.stand_ins:
        rows = [(s.name, s.count, f"{s.time_ns / 1e6:,.3f}", s.why) for s in report.stand_ins]
        print_table(("stand-in for", "count", "ms", "why"), rows[:_SHOWN])
        if len(rows) > _SHOWN:
            out.print(f"… and {len(rows) - _SHOWN} more (--json has all)")
    if output is not None:
        out.print(f"wrote {output}")


def _rank_row(rank: RankResult) -> tuple[object, ...]:
    step = rank.step_ns
    times = (step.median, step.p10, step.p90, rank.cpu_ns, rank.kernel_ns)
    shown = (f"{ns / 1e6:,.3f}" for ns in times)
    return (rank.rank, rank.recorded_rank, *shown, f"{rank.coverage.time:.1%}")
