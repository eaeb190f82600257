"""Runs analyzed and compared."""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.api.inputs import Faster, Traces, faster_of, traces_of, workers_of
from chakrakit.insight.analysis import Analysis, AnalysisOptions
from chakrakit.insight.analysis import analyze as analyze_run
from chakrakit.insight.compare import Comparison, failures, parse_rule
from chakrakit.insight.compare import compare as compare_runs
from chakrakit.parallel import Progress, quiet
from chakrakit.trace.sets import Run


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
