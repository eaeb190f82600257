"""`replay`: a trace on real hardware."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, Unpack

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import Path_
from chakrakit.commands.options import Option, Positional, picked, public
from chakrakit.commands.output import Json, console, print_json, print_recording, print_table

if TYPE_CHECKING:
    from chakrakit.replayer import RankResult, ReplayReport

_SHOWN = 12  # rows of stand-ins that fit one screen with the other tables; --json has all


class ReplaySettings(TypedDict, total=False):
    """Options of `replay`."""

    mode: Annotated[
        Literal["full", "compute", "comm", "emulate"],
        Option(
            "All operators, no communication, communication alone, or communication with waits in place "
            "of compute.",
            "full",
        ),
    ]
    device: Annotated[Literal["cpu", "cuda"], Option("Where to run.", "cpu")]
    nproc: Annotated[int, Option("Ranks; 0: as many as were recorded.", 0)]
    iterations: Annotated[int, Option("How often the step is timed.", 10, least=1)]
    warmup: Annotated[int, Option("Iterations that are not timed.", 3, least=0)]
    step: Annotated[int, Option("Which recorded step; -1: the last.", -1)]
    gaps: Annotated[bool, Option("Keep the host's own time between operators.", False)]
    shrink: Annotated[
        Literal["keep", "scale"],
        Option("In a group with fewer members: keep each one's part, or the whole.", "keep"),
    ]
    backend: Annotated[str, Option("gloo or nccl; by default what suits the device.", "")]
    allow_generated_code: Annotated[
        bool,
        Option(
            "Launch kernels that a compiler generated from their recorded code instead of waiting as long "
            "as they took. Only for recordings that you trust: it is code that runs on your GPU.",
            False,
        ),
    ]
    timeout: Annotated[float, Option("Seconds to wait for a rank.", 300.0)]
    export: Annotated[
        Path_ | None,
        Option(
            "Write plans and runner instead of running them; `python DIR/run.py` runs them with PyTorch "
            "alone.",
            None,
            metavar="DIR",
        ),
    ]
    output: Annotated[
        Path_ | None, Option("Write the replayed run.", None, flags="-o --output", metavar="RUN")
    ]


@public(ReplaySettings)
def replay(
    trace: Annotated[
        Path_,
        Positional(
            "A linked run, files of PyTorch's profiler, a generated trace, or an exported folder that was "
            "run."
        ),
    ],
    **options: Unpack[ReplaySettings],
) -> ReplayReport | None:
    """Run a trace on real hardware, or only its communication.

    Returns
    -------
    The report; None with `export`, and on all but the first rank under torchrun.

    Examples
    --------
    >>> ck.replay("run", device="cuda").step_ns.median  # doctest: +SKIP

    """
    from chakrakit.replayer import ReplayOptions
    from chakrakit.replayer import export as export_replay
    from chakrakit.replayer import replay as replay_trace

    replay_options = ReplayOptions(**picked(ReplayOptions, options))
    export, output = options["export"], options["output"]
    if export is not None:
        export_replay(os.fspath(trace), Path(export), replay_options)
        return None
    return replay_trace(
        os.fspath(trace),
        replay_options,
        iterations=options["iterations"],
        warmup=options["warmup"],
        timeout_s=options["timeout"],
        output=None if output is None else Path(output),
    )


@command_of(replay)
def command(
    trace: Annotated[
        str,
        Positional(
            "A run, or what makes one; by default it is read from a pipe.", metavar="[TRACE]"
        ),
    ] = "-",
    *,
    export: str | None,
    output: str | None,
    json: Json = False,
    **options: Any,
) -> None:
    """Replay TRACE: a run, files of PyTorch's profiler, a generated trace, or an exported folder.

    Without TRACE it is read from a pipe. An exported folder must have been run.

    Says how much was replayed and what stood in for the rest.

    \b
    chakra replay run
    chakra replay run --mode comm --nproc 4
    """
    report = replay(trace, export=export, output=output, **options)
    if export is not None:
        return console().print(f"wrote {export}: python {export}/run.py")
    if report is None:
        return None  # another rank of torchrun's reports
    if json:
        return print_json(report)
    return _print(report, output)


def _print(report: ReplayReport, output: str | None) -> None:
    print_recording(report.recording)
    out = console()
    step, share = report.step_ns, report.coverage
    out.print(
        f"step {step.median / 1e6:,.3f} ms over {report.iterations} iterations "
        f"({step.p10 / 1e6:,.3f} to {step.p90 / 1e6:,.3f})"
    )
    out.print(f"replayed: {share.count:.1%} of operators, {share.time:.1%} of their time")
    if report.recorded is not None:
        out.print(report.recorded.sentence)
    head = ("rank", "plays", "step ms", "p10", "p90", "cpu ms", "kernels ms", "coverage")
    print_table(head, [_rank_row(rank) for rank in report.ranks])
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
    cells = (f"{ns / 1e6:,.3f}" for ns in times)
    return (rank.rank, rank.recorded_rank, *cells, f"{rank.coverage.time:.1%}")
