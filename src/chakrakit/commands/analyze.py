"""`analyze`: where the time went, what is exposed, who waits for whom, what would help."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

from chakrakit.commands.command import command as command_of
from chakrakit.commands.inputs import (
    ProgressOption,
    WorkerOptions,
    mapping_of,
    progress_of,
    traces_of,
    workers_of,
)
from chakrakit.commands.opening import said
from chakrakit.commands.options import OUTPUT, Option, Positional, public
from chakrakit.commands.output import (
    FIRST_SCREEN,
    Json,
    console,
    print_answers,
    print_csv,
    print_json,
    print_notes,
    print_recording,
    print_tables,
    progress,
)
from chakrakit.commands.terminal import clean

if TYPE_CHECKING:
    from chakrakit.commands.inputs import Traces
    from chakrakit.insight import Analysis
    from chakrakit.insight import AnalysisOptions as Analyzing
    from chakrakit.insight.rank import Table
    from chakrakit.trace.sets import Run, TraceSet


def factors_of(texts: Iterable[str]) -> dict[str, float]:
    """`["compute=2"]` as factors by what gets faster."""
    from chakrakit.insight.rank import pairs

    return dict(pairs(texts))


def ranks_of(text: str) -> Sequence[int]:
    """`0,1,5` as ranks, or as steps."""
    from chakrakit.insight.rank import parse_ranks

    return parse_ranks(text)


class AnalysisSettings(TypedDict, total=False):
    """Options that an analysis and a page about it share."""

    faster: Annotated[
        Mapping[str, float] | Iterable[str],
        Option(
            "Try WHAT k times faster: compute, communication, copy, host, group:NAME, or a pattern of "
            "operator or kernel names.",
            (),
            metavar="WHAT=K",
            parse=factors_of,
        ),
    ]
    machine: Annotated[
        str,
        Option(
            "The machine that a recording was made on: what its operators take is held beside what it needs "
            "for them; by default the one that the recording names.",
            "",
            metavar="NAME_OR_FILE",
        ),
    ]
    peak_tflops: Annotated[float, Option("The device's peak, for MFU and the roofline.", 0.0)]
    peak_gbps: Annotated[float, Option("Its memory's peak in GB/s.", 0.0)]


class AnalyzeOptions(AnalysisSettings, WorkerOptions, ProgressOption, total=False):
    """Options of `analyze`."""

    ranks: Annotated[
        Sequence[int],
        Option(
            "Only these ranks.",
            (),
            flags="--ranks --rank",
            metavar="0,1,…",
            joined=True,
            parse=ranks_of,
        ),
    ]
    steps: Annotated[
        Sequence[int],
        Option(
            "Only these steps.", (), flags="--step", metavar="0,1,…", joined=True, parse=ranks_of
        ),
    ]
    advice: Annotated[
        bool, Option("Try changes of the run by simulating them; this may take seconds.", True)
    ]


@public(AnalyzeOptions)
def analyze(
    run: Annotated[
        Traces,
        Positional("A Run, or the path of one: measured, simulated or replayed.", metavar="RUN"),
    ],
    **options: Unpack[AnalyzeOptions],
) -> Analysis:
    """Say where the time of a run went, what is exposed, who waits for whom, and what would help.

    Examples
    --------
    >>> traces = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces
    >>> run = ck.simulate(traces, "dgx-h100", compute="roofline").run()
    >>> ck.analyze(run, faster={"compute": 2}).what_if.gains[0].saved_ns > 0
    True

    """
    from chakrakit.insight import analyze as analyze_run
    from chakrakit.trace.sets import Run

    timed = traces_of(run, timed=True)
    selected: TraceSet = timed.select_ranks(options["ranks"]) if options["ranks"] else timed
    if options["steps"]:
        from chakrakit.passes import Select

        selected = Select(steps=tuple(options["steps"])).apply(selected)
    assert isinstance(selected, Run)
    found = analyze_run(selected, analyzing(options), progress_of(options), workers_of(options))
    whole = options["advice"] and selected is timed
    return with_advice(found, timed, run, options) if whole else found


def with_advice(
    analysis: Analysis, run: Run, source: Traces, options: AnalysisSettings
) -> Analysis:
    """The analysis with the changes of the run that were tried; `source` is where the run lies."""
    from chakrakit.insight import advise

    path = os.fspath(source) if isinstance(source, str | os.PathLike) else "RUN"
    analysis.advice, note = advise(run, path, options["machine"])
    analysis.notes += [note] if note else []
    return analysis


def analyzing(options: AnalysisSettings) -> Analyzing:
    """The options as the analysis takes them."""
    from chakrakit.insight import AnalysisOptions as Analyzing

    faster = tuple(mapping_of(options["faster"]).items())
    peaks = options["peak_tflops"], options["peak_gbps"]
    return Analyzing(faster or None, options["machine"], *peaks)


@command_of(analyze)
def command(
    run: str,
    *,
    full: Annotated[
        bool, Option("Every section, instead of the first answers.", group=OUTPUT)
    ] = False,
    section: Annotated[
        Sequence[str],
        Option(
            "Only this section, such as operators, critical-path or memory.",
            metavar="NAME",
            group=OUTPUT,
        ),
    ] = (),
    rows: Annotated[int, Option("At most this many rows per table.", group=OUTPUT)] = 12,
    csv: Annotated[
        bool, Option("Tables as comma-separated values, with all rows.", group=OUTPUT)
    ] = False,
    json: Json = False,
    **options: Any,
) -> None:
    """Say what happened in RUN: measured, simulated or replayed.

    \b
    chakra analyze RUN                      # the answers: how long, bound by what
    chakra analyze RUN --section operators  # one section; --full prints all
    chakra analyze RUN --faster communication=2 --faster 'gemm=1.5'
    """
    source = said(run)
    options["advice"] &= not section or "advice" in section
    with progress("analyzing") as show:
        result = analyze(source, progress=show, **options)
    if json:
        return print_json(result)
    chosen = _chosen(result, section)
    if csv:
        return print_csv(chosen)
    if not section:
        _print_first(result, run, full)
    return print_tables(result.notes, chosen, rows) if full or section else None


def _chosen(result: Analysis, names: Sequence[str]) -> list[Table]:
    """Tables of the named sections; of all where none is named."""
    from chakrakit.errors import ConfigError, nearest

    sections = result.sections()
    for name in names:
        if name not in sections:
            raise ConfigError(
                f"no section named {name!r}: {nearest(name, sections, len(sections))}"
            )
    return [table for name in names or sections for table in sections[name]]


def _print_first(result: Analysis, path: str, full: bool) -> None:
    """Prints the first answers, a line each, and the command that says more; with `full` all answers."""
    from chakrakit.insight import UNTRIED, answers

    print_recording(result.recording)
    every = answers(result)
    if full:
        return print_answers(every)
    for answer in every[:FIRST_SCREEN]:
        console().print(clean(answer.line))
    if not result.advice:
        print_notes(note for note in result.notes if note.startswith(UNTRIED))
    console().print(f"more: chakra analyze {path} --full, chakra view {path}, or --section NAME")
    return None
