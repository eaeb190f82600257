"""Runs drawn: a page, and the browser."""

from __future__ import annotations

import os

from chakrakit.api.inputs import Faster, Path_, Traces, faster_of, traces_of
from chakrakit.insight.analysis import Analysis, AnalysisOptions
from chakrakit.insight.analysis import analyze as analyze_run
from chakrakit.insight.compare import compare_analyses
from chakrakit.insight.rank import facts_of
from chakrakit.parallel import Progress, quiet
from chakrakit.trace.files import open_output
from chakrakit.trace.sets import TraceSet
from chakrakit.views.pages import html_report, markdown_report


def report(
    run: Traces,
    output: Path_ | None = None,
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


def view(*runs: Path_, port: int | None = None, browser: bool = True) -> None:
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
