"""The few sentences that an engineer wants first, each with its figures; and figures as texts with units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from chakrakit.insight.analysis import Analysis
from chakrakit.insight.rank import ms, percent, short, stretches
from chakrakit.results import Result, counted
from chakrakit.trace.memory import shortage_line

_NOTABLE = 0.01
"""Shares below this get no sentence."""


class Answer(Result, msgspec.Struct, frozen=True):
    """A question, its answer as a figure, and a sentence about it. `share` is of the span, 0 to 1."""

    question: str
    figure: str
    sentence: str
    share: float = 0.0


def answers(analysis: Analysis) -> list[Answer]:
    """The answers for an analysis, the most important first."""
    first = (_blame, _served, _fits, _step, _bound, _exposed, _idle)
    parts = (*first, _helps, _late, _bubble, _memory, _use, _takes, _sure)
    return [answer for part in parts for answer in part(analysis)]


def _blame(a: Analysis) -> Iterator[Answer]:
    if a.culprits:
        first, *others = a.culprits
        more = f" {counted(len(others), 'other finding')} under culprits." if others else ""
        yield Answer("Who is to blame?", first.kind, f"{first.detail}.{more}")


def _served(analysis: Analysis) -> Iterator[Answer]:
    serving = analysis.serving
    if serving is None:
        return
    most = max(serving.parts, key=lambda name: serving.parts[name])
    share = serving.parts[most] / max(serving.e2e_ms.mean, 1e-12)
    phase = {"queued": "in the queue", "prompt": "on its prompt", "output": "on its output"}[most]
    yield Answer(
        "How long does a request take?",
        time_text(serving.e2e_ms.mean * 1e6),
        f"The mean of {serving.requests:,} requests; {100 * share:.0f} % of it {phase}. First token after "
        f"{time_text(serving.ttft_ms.mean * 1e6)}, then one every {time_text(serving.tpot_ms.mean * 1e6)}.",
        share,
    )


def time_text(nanos: float) -> str:
    """A time with a unit that suits it."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(nanos) >= size:
            return f"{nanos / size:,.2f} {unit}"
    return f"{nanos:,.0f} ns"


def size_text(count: float) -> str:
    """Bytes with a unit that suits them."""
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(count) >= size:
            return f"{count / size:,.2f} {unit}"
    return f"{count:,.0f} B"


def ranks_text(ranks: Sequence[int]) -> str:
    """`rank 5`, `ranks 0–63 (64)`, `ranks 0, 8–15, 24 … (12)`: ascending ranks, cut to a few stretches."""
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {stretches(ranks)}"


def rate_text(tflops: float) -> str:
    """Operations per second with a unit that suits them."""
    for unit, size in (("PFLOP/s", 1e3), ("TFLOP/s", 1.0), ("GFLOP/s", 1e-3)):
        if tflops >= size:
            return f"{tflops / size:,.1f} {unit}"
    return f"{tflops * 1e6:,.1f} MFLOP/s"


def _mean(analysis: Analysis, name: str) -> float:
    total: int = sum(getattr(r.breakdown, name) for r in analysis.ranks)
    return total / max(len(analysis.ranks), 1)


def _step(a: Analysis) -> Iterator[Answer]:
    count = len({s.step for s in a.steps.steps})
    if a.steps.found == "none":
        yield Answer(
            "How long does it take?",
            time_text(a.span_ns),
            f"from first start to last end, {counted(len(a.ranks), 'rank')}.",
        )
    else:
        how = "marked in the trace" if a.steps.found == "marked" else "found where work repeats"
        yield Answer(
            "How long is a step?",
            time_text(a.steps.median_ns),
            f"{counted(count, 'step')} {how}, {time_text(a.span_ns)} in all on "
            f"{counted(len(a.ranks), 'rank')}.{_recorded(a)}",
        )


def _recorded(a: Analysis) -> str:
    sentence = a.recording.sentence if a.recording else ""
    return f" {sentence[0].upper()}{sentence[1:]}." if sentence else ""


def _bound(a: Analysis) -> Iterator[Answer]:
    if not a.critical_path.attribution:
        return
    activity, nanos = next(iter(a.critical_path.attribution.items()))
    top = [
        f"{short(name, 40)} {percent(ns, a.critical_path.length_ns)} %"
        for kind, name, ns in a.critical_path.operators
        if kind == activity
    ][:3]
    share = percent(nanos, a.critical_path.length_ns)
    yield Answer(
        "What is it bound by?",
        f"{activity}: {share} %",
        f"of the critical path is {activity}; most of it {', '.join(top)}. {_BOUND.get(a.bound, '')}",
        share / 100,
    )


_BOUND = {
    "host": "The host bounds it.",
    "device": "The device bounds it.",
    "communication": "Communication bounds it.",
}


def _exposed(a: Analysis) -> Iterator[Answer]:
    comm = _mean(a, "comm_ns")
    if not comm:
        return
    exposed, wait = _mean(a, "exposed_comm_ns"), _mean(a, "exposed_wait_ns")
    hidden = percent(comm - exposed, comm)
    late = (
        f"; {time_text(wait)} of it is waiting for late ranks" if wait > _NOTABLE * exposed else ""
    )
    yield Answer(
        "How much communication is exposed?",
        time_text(exposed),
        f"a rank on average, {percent(exposed, a.span_ns)} % of the time; computation hides "
        f"{hidden} % of all communication{late}.",
        exposed / max(a.span_ns, 1),
    )


def _idle(a: Analysis) -> Iterator[Answer]:
    idle = _mean(a, "idle_ns")
    if idle < _NOTABLE * a.span_ns:
        return
    causes: dict[str, int] = {}
    for rank in a.ranks:
        for cause, ns in rank.breakdown.idle.items():
            causes[cause] = causes.get(cause, 0) + ns
    total = max(sum(causes.values()), 1)
    order = sorted(causes.items(), key=lambda item: -item[1])
    reasons = ", ".join(
        f"{_IDLE[c]} {percent(ns, total)} %" for c, ns in order if ns > _NOTABLE * total
    )
    yield Answer(
        "Why is it idle?",
        f"{percent(idle, a.span_ns)} % idle",
        f"{reasons}.",
        idle / max(a.span_ns, 1),
    )


_IDLE = {
    "host": "the host had not launched the next work",
    "dependency": "the next work waited for other work",
    "peer": "another rank was late",
    "bubble": "a message had not been sent",
    "ended": "the rank was done before the others",
    "unknown": "nothing in the trace says why:",
}


def _helps(a: Analysis) -> Iterator[Answer]:
    gains = [g for g in a.what_if.gains if g.saved_ns > _NOTABLE * a.what_if.scheduled_ns]
    if not gains:
        return
    best = gains[0]
    rest = "; ".join(f"{g.what} {g.factor:g}×: {time_text(g.saved_ns)}" for g in gains[1:4])
    share = percent(best.saved_ns, a.what_if.scheduled_ns)
    yield Answer(
        "What would help most?",
        f"{best.what} {best.factor:g}× faster",
        f"saves {time_text(best.saved_ns)} ({share} %), all dependencies kept"
        f"{'; ' + rest if rest else ''}.",
        share / 100,
    )


def _late(a: Analysis) -> Iterator[Answer]:
    if not a.stragglers or a.stragglers[0].caused_wait_ns < _NOTABLE * a.span_ns:
        return
    worst = a.stragglers[0]
    total = sum(s.caused_wait_ns for s in a.stragglers)
    how = "by messages sent late"
    if worst.times_last:
        how = f"last at {worst.times_last} of {worst.collectives} collectives"
    link = ""
    if a.slow_links:
        slow = a.slow_links[0]
        link = f" Slowest link: {slow.where}, {slow.slowdown:.2f}× its like."
    share = percent(worst.caused_wait_ns, total)
    sentence = (
        f"makes others wait {time_text(worst.caused_wait_ns)} in all, {share} % of all waiting"
    )
    who = a.rank_name(worst.rank)
    yield Answer("Who makes others wait?", who, f"{sentence}; {how}.{link}")


def _bubble(a: Analysis) -> Iterator[Answer]:
    bubble = _mean(a, "bubble_ns") + sum(r.breakdown.idle.get("bubble", 0) for r in a.ranks) / max(
        len(a.ranks), 1
    )
    if bubble > _NOTABLE * a.span_ns:
        yield Answer(
            "How large are the pipeline's bubbles?",
            f"{percent(bubble, a.span_ns)} %",
            f"{time_text(bubble)} a rank on average is waiting for messages that were not sent yet.",
            bubble / a.span_ns,
        )


def _fits(a: Analysis) -> Iterator[Answer]:
    if verdict := shortage_line(a.fits, a.needs_bytes, a.has_bytes):
        yield Answer("Does it fit?", "no", f"{verdict.partition(': ')[2]}.")


def _memory(a: Analysis) -> Iterator[Answer]:
    rank = next((r for r in a.memory.ranks if r.rank == a.memory.peak_rank), None)
    if rank is None:
        return
    kinds = ", ".join(
        f"{k} {percent(v, rank.peak_bytes)} %" for k, v in list(rank.by_kind.items())[:3]
    )
    yield Answer(
        "What fills the memory?",
        size_text(a.memory.peak_bytes),
        f"at most, on rank {rank.rank} at {ms(rank.peak_ns):,} ms: {kinds}.",
    )


def _use(a: Analysis) -> Iterator[Answer]:
    if a.roofline.ops:
        mfu = f", {100 * a.roofline.mfu:.1f} % of the device's peak" if a.roofline.mfu else ""
        yield Answer(
            "How well is the device used?",
            rate_text(a.roofline.tflops_per_rank),
            f"per rank over the whole time{mfu}.",
            a.roofline.mfu,
        )


def _takes(a: Analysis) -> Iterator[Answer]:
    footprint = a.footprint
    if footprint is None or footprint.energy_joules is None or not footprint.energy_by_class:
        return
    most = max(footprint.energy_by_class, key=lambda n: footprint.energy_by_class[n])
    clauses = [
        f"{percent(footprint.energy_by_class[most], footprint.energy_joules)} % of it {most}"
    ]
    if footprint.facility_joules:
        clauses.append(f"{footprint.facility_joules:,.4g} J with servers and building")
    if footprint.carbon_kg:
        clauses.append(f"{footprint.carbon_kg:,.3g} kg CO2")
    if footprint.price:
        clauses.append(f"${footprint.price:,.4g}")
    yield Answer(
        "What does it take?", f"{footprint.energy_joules:,.4g} J", f"{'; '.join(clauses)}."
    )


def _sure(a: Analysis) -> Iterator[Answer]:
    footprint = a.footprint
    if footprint is None or not footprint.extrapolated_share:
        return
    rung = f" Computation is costed by a {footprint.rung}." if footprint.rung else ""
    yield Answer(
        "How sure are the times?",
        f"± {100 * (footprint.compute_error or 0.0):.0f} %",
        f"{100 * footprint.extrapolated_share:.1f} % of the devices' time lies outside of what was measured."
        + rung,
        footprint.extrapolated_share,
    )
