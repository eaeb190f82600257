"""Runs looked at: analyzed, compared, reported, drawn, viewed."""

from __future__ import annotations

import os
from collections.abc import Sequence

from chakrakit.api.inputs import Faster, Traces, faster_of, traces_of, workers_of
from chakrakit.insight.analysis import Analysis, AnalysisOptions
from chakrakit.insight.analysis import analyze as analyze_run
from chakrakit.insight.compare import Comparison, compare_analyses, failures, parse_rule
from chakrakit.insight.compare import compare as compare_runs
from chakrakit.insight.rank import facts_of
from chakrakit.parallel import Progress, quiet
from chakrakit.trace.files import open_output
from chakrakit.trace.sets import Run, TraceSet
from chakrakit.views.pages import html_report, markdown_report


def analyze(
    run: Traces,
    *,
    faster: Faster = (),
    peak_tflops: float = 0.0,
    peak_gbps: float = 0.0,
    ranks: Sequence[int] = (),
    engine: str | None = None,
    jobs: int | None = None,
    progress: Progress = quiet,
) -> Analysis:
    """Say where the time of a run went, what is exposed, who waits for whom, and what would help.

    Parameters
    ----------
    run
        A Run, or the path of one: measured, simulated or replayed.
    faster
        What-ifs: `{"compute": 2}`; also communication, copy, host, group:NAME, or a pattern of names.
    peak_tflops, peak_gbps
        The device's peaks, for MFU and the roofline.
    ranks
        Only these ranks.
    engine, jobs
        Spread the ranks over workers.
    progress
        Called with the number of ranks looked at, of how many.

    Examples
    --------
    >>> traces = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces
    >>> run = ck.simulate(traces, "dgx-h100", compute="roofline").run()
    >>> ck.analyze(run, faster={"compute": 2}).what_if.gains[0].saved_ns > 0
    True

    """
    found = traces_of(run, timed=True)
    chosen = found.select_ranks(ranks) if ranks else found
    assert isinstance(chosen, Run)
    options = AnalysisOptions(faster_of(faster), peak_tflops, peak_gbps)
    return analyze_run(chosen, options, progress, workers_of(engine, jobs))


def compare(
    a: Traces | Sequence[Traces], b: Traces | Sequence[Traces], *, fail_if: Sequence[str] = ()
) -> Comparison:
    """Compare run `b` with run `a`: the step, what explains its change, operators, modules, groups.

    Parameters
    ----------
    a, b
        A run or path each, or several of a kind: they give the noise.
    fail_if
        Rules such as `step>3%`; those that `b` breaks are in the result's `broken`.

    Examples
    --------
    >>> traces = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces
    >>> runs = [ck.simulate(traces, m, compute="roofline").run() for m in ("dgx-h100", "dgx-a100")]
    >>> comparison = ck.compare(*runs)
    >>> comparison.step.b_ns > comparison.step.a_ns
    True

    """
    for rule in fail_if:
        parse_rule(rule)
    result = compare_runs(_runs(a), _runs(b))
    result.broken = failures(result, fail_if)
    return result


def _runs(given: Traces | Sequence[Traces]) -> list[Run]:
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    return [traces_of(one, timed=True) for one in several]


def report(
    run: Traces,
    output: str | os.PathLike[str] | None = None,
    *,
    against: Traces | None = None,
    faster: Faster = (),
    peak_tflops: float = 0.0,
    peak_gbps: float = 0.0,
    md: bool = False,
    progress: Progress = quiet,
) -> Analysis:
    """Write one self-contained page about a run: answers first, then plots and tables.

    Parameters
    ----------
    run
        A Run, or the path of one.
    output
        Where to write it; by default `report.html`, or `report.md` with `md`.
    against
        Another run to compare with; it is A, `run` is B.
    faster, peak_tflops, peak_gbps
        As in `analyze`.
    md
        Markdown instead of HTML.
    progress
        As in `analyze`.

    Examples
    --------
    >>> traces = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2).traces
    >>> run = ck.simulate(traces, "dgx-h100", compute="roofline").run()
    >>> ck.report(run, "page.html").span_ns > 0
    True

    """
    found = traces_of(run, timed=True)
    options = AnalysisOptions(faster_of(faster), peak_tflops, peak_gbps)
    result = analyze_run(found, options, progress)
    facts, comparison = facts_of(found, _path(run)), None
    if against is not None:
        other = traces_of(against, timed=True)
        comparison = compare_analyses([analyze_run(other, options, progress)], [result])
        facts |= {"against": _path(against) or other.card.name}
    write = markdown_report if md else html_report
    target = output or ("report.md" if md else "report.html")
    with open_output(os.fspath(target), binary_only=False) as stream:
        stream.write(write(result, facts, comparison).encode("utf-8", "replace"))
    return result


def _path(run: Traces) -> str:
    return "" if isinstance(run, TraceSet) else os.fspath(run)


def view(*runs: str | os.PathLike[str], port: int | None = None, browser: bool = True) -> None:
    """Look at a run, or two, in the browser; serves on this machine only, until interrupted.

    Parameters
    ----------
    runs
        One path, or two to compare.
    port
        Where to listen; by default 8127 or any free one.
    browser
        Whether to open a browser.

    Examples
    --------
    >>> ck.view("run")  # doctest: +SKIP

    """
    from chakrakit.views.app import open_session, serve  # needs the extra `view`

    session = open_session([os.fspath(run) for run in runs])
    serve(session, port, browser, lambda _address: None)
