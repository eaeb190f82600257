"""The few sentences that an engineer wants first, each with its figures; and figures as texts with units."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from chakrakit.insight.advice import Advice
from chakrakit.insight.analysis import Analysis
from chakrakit.insight.rank import ms, percent, short, stretches
from chakrakit.insight.served_requests import ServingFacts
from chakrakit.results import (
    SITE,
    Result,
    counted,
    energy_text,
    mass_text,
    money_text,
    size_text,
    three_digits,
    time_text,
    utilization_text,
)
from chakrakit.trace.memory import shortage_line
from chakrakit.trace.placement import seen_whole, slowest_periods

_NOTABLE = 0.01
"""Shares below this get no sentence."""


class Answer(Result, msgspec.Struct, frozen=True):
    """A question, its answer as a figure, and a sentence about it. `share` is of the span, 0 to 1.

    `brief` goes on from the figure, for those who read one line: what it is of, or what it comes from.
    """

    question: str
    figure: str
    sentence: str
    share: float = 0.0
    brief: str = ""

    @property
    def line(self) -> str:
        """Question, figure and the most important of the sentence."""
        return f"{self.question} {self.figure}{self.brief}"


def answers(analysis: Analysis) -> list[Answer]:
    """The answers for an analysis, the most important first."""
    # In a pipeline somebody always sends last: its bubbles come before who that is.
    first = (_blame, _served, _slowest, _fits, _step, _days, _bound, _helps, _bubble)
    waits = [answer for part in (_exposed, _idle) for answer in part(analysis)]
    for late in _late(analysis):
        place = next((i for i, wait in enumerate(waits) if wait.share < late.share), len(waits))
        waits.insert(place, late)
    last = (_memory, _use, _takes, _sure)
    before, after = ([a for part in some for a in part(analysis)] for some in (first, last))
    return [*before, *waits, *after]


def _blame(a: Analysis) -> Iterator[Answer]:
    if a.culprits:
        first, *others = a.culprits
        more = f" {counted(len(others), 'other finding')} under culprits." if others else ""
        yield Answer(
            "Who is to blame?", first.kind, f"{first.detail}.{more}", brief=f": {first.detail}"
        )


def _served(analysis: Analysis) -> Iterator[Answer]:
    serving = analysis.serving
    if serving is None:
        return
    most = max(serving.parts, key=lambda name: serving.parts[name])
    share = serving.parts[most] / max(serving.e2e_ms.mean, 1e-12)
    phase = {"queued": "in the queue", "prompt": "on its prompt", "output": "on its output"}[most]
    more = f", then one every {_served_text(serving, 'tpot_ms')}" if serving.tpot_ms else ""
    yield Answer(
        "How long does a request take?",
        _served_text(serving, "e2e_ms"),
        f"The mean of {serving.requests:,} requests; {100 * share:.0f} % of it {phase}. First token after "
        f"{_served_text(serving, 'ttft_ms')}{more}.",
        share,
        f" on average, {100 * share:.0f} % of it {phase}",
    )


def _served_text(serving: ServingFacts, figure: str) -> str:
    """The mean of a served figure, with its interval where one is known."""
    mean = getattr(serving, figure).mean * 1e6
    bounds = serving.intervals.get(figure, {}).get("mean")
    return interval_text(mean, *(b * 1e6 for b in bounds)) if bounds else time_text(mean)


def _slowest(analysis: Analysis) -> Iterator[Answer]:
    """What the slowest requests spent their time on, beside the mean request."""
    serving = analysis.serving
    if serving is None or not serving.slowest:
        return
    slow = serving.slowest
    sums = {
        "queue": sum(r.scheduled_ms - r.arrival_ms for r in slow),
        "prompt": sum(r.first_ms - r.scheduled_ms for r in slow),
        "output": sum(r.finish_ms - r.first_ms for r in slow),
    }
    total = max(sum(sums.values()), 1e-12)
    usual = max(serving.e2e_ms.mean, 1e-12)
    shares = ", ".join(
        f"{name} {100 * ms / total:.0f} % (mean request {100 * mean / usual:.0f})"
        for (name, ms), mean in zip(sums.items(), serving.parts.values(), strict=True)
    )
    most = max(sums, key=lambda name: sums[name])
    yield Answer(
        "What did the slowest requests wait for?",
        {"queue": "their turn", "prompt": "their prompt", "output": "their output"}[most],
        f"The slowest {len(slow)} took {time_text(total / len(slow) * 1e6)} on average: {shares}."
        f"{_queued_for(serving) if most == 'queue' else ''}",
        sums[most] / total,
        f", {100 * sums[most] / total:.0f} % of {time_text(total / len(slow) * 1e6)}",
    )


def _queued_for(serving: ServingFacts) -> str:
    whole = max(sum(serving.waits().values()), 1e-12)
    parts = sorted(serving.waits().items(), key=lambda item: -item[1])
    texts = [f"{cause} {100 * wait / whole:.0f} %" for cause, wait in parts if wait]
    return f" The queue waited for {', '.join(texts)}." if texts else ""


def interval_text(nanos: float, low: float, high: float) -> str:
    """`1.41 s (1.2–1.65)`: a time and its interval in a unit that suits them, with three digits."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)):
        if abs(nanos) >= size or unit == "ns":
            value, least, most = (three_digits(n / size) for n in (nanos, low, high))
            return f"{value} {unit} ({least}–{most})"
    raise AssertionError


def ranks_text(ranks: Sequence[int]) -> str:
    """`rank 5`, `ranks 0–63 (64)`, `ranks 0, 8–15, 24 … (12)`: ascending ranks, cut to a few stretches."""
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {stretches(ranks)}"


def named_ranks(a: Analysis, ranks: Sequence[int]) -> str:
    """Ranks as `ranks_text` says them; a single one with the name of its actor, where it has one."""
    return a.rank_name(ranks[0]) if len(ranks) == 1 else ranks_text(ranks)


def rate_text(tflops: float) -> str:
    """Operations per second with a unit that suits them."""
    for unit, size in (("PFLOP/s", 1e3), ("TFLOP/s", 1.0), ("GFLOP/s", 1e-3)):
        if tflops >= size:
            return f"{tflops / size:,.1f} {unit}"
    return f"{tflops * 1e6:,.1f} MFLOP/s"


def _mean(analysis: Analysis, name: str) -> float:
    """A part of the mean rank's breakdown in a step; in the whole run where it has no steps."""
    total: int = sum(getattr(r.breakdown, name) for r in analysis.ranks)
    return total / max(len(analysis.ranks), 1) / _steps(analysis)


def _steps(analysis: Analysis) -> int:
    """How many steps figures are divided by: a window of several is no step."""
    return analysis.steps.count


def _a_step(analysis: Analysis) -> str:
    return " a step" if _steps(analysis) > 1 else ""


def _length(analysis: Analysis) -> float:
    """How long what figures are about lasts: a step, or the whole run."""
    return max(analysis.span_ns / _steps(analysis), 1)


_NS_PER_DAY = 8.64e13


def _step(a: Analysis) -> Iterator[Answer]:
    count = len({s.step for s in a.steps.steps})
    if a.campaign:  # its rows are what the job did in turn, and no steps
        yield Answer(
            "How long does it take?",
            f"{a.span_ns / _NS_PER_DAY:,.2f} days",
            f"the whole history of {counted(len(a.ranks), 'node')}.",
            brief=f" on {counted(len(a.ranks), 'node')}",
        )
    elif a.endless:  # it has no step that ends
        yield Answer(
            "How far did it come?",
            time_text(a.span_ns),
            f"from first start to what ended last, {_ranks(a)}; it does not end.",
            brief=f", {_ranks(a)}; it does not end",
        )
    elif a.steps.found == "none":
        yield Answer(
            "How long does it take?",
            _predicted(a, a.span_ns),
            f"from first start to last end, {_ranks(a)}{_as_served(a)}.",
            brief=f", {_ranks(a)}{_as_served(a)}",
        )
    else:
        how = "marked in the trace" if a.steps.found == "marked" else "found where work repeats"
        usual, unlike = "", _unlike(a)
        if count > 1:
            usual = f"The median of {counted(count - 1, 'step')} after the first{unlike}; "
        yield Answer(
            "How long is a step?",
            _predicted(a, a.steps.median_ns),
            f"{usual}{counted(count, 'step')} {how}, {time_text(a.span_ns)} in all on "
            f"{_ranks(a)}.{_recorded(a)}",
            brief=f", {f'median of {count - 1:,}{unlike}, ' if count > 2 else ''}{_ranks(a)}",
        )


def _as_served(a: Analysis) -> str:
    """What an engine's steps took when they were served, where the run shows their operators."""
    if not a.served_ns:
        return ""
    return f"; {time_text(a.served_ns)} as served, with what the engine does besides operators"


_UNLIKE = 1.25
"""Steps of which the longest takes this many times the shortest are unlike: their median alone says little.
Chosen: clocks and hosts make like steps differ by some percent."""


def _unlike(a: Analysis) -> str:
    """Between which times steps lie, where they are unlike."""
    by_rank: dict[int, dict[int, int]] = {}
    for s in a.steps.steps:
        by_rank.setdefault(s.rank, {})[s.step] = s.period_ns
    periods = seen_whole(slowest_periods(by_rank.values()))
    if len(periods) < 2 or max(periods) < _UNLIKE * min(periods):
        return ""
    return f" from {time_text(min(periods))} to {time_text(max(periods))}"


def _predicted(a: Analysis, nanos: float) -> str:
    """A time of the run, with its share of the interval that the whole run has if it was predicted."""
    if a.footprint is None or a.footprint.interval_ns is None or not a.span_ns:
        return time_text(nanos)
    low, high = (bound * nanos / a.span_ns for bound in a.footprint.interval_ns)
    return interval_text(nanos, low, high)


def _recorded(a: Analysis) -> str:
    sentence = a.recording.sentence if a.recording else ""
    return f" {sentence[0].upper()}{sentence[1:]}." if sentence else ""


def _bound(a: Analysis) -> Iterator[Answer]:
    if (
        not a.bound or a.serving is not None
    ):  # a served stream is bound by what its requests wait for
        return
    saves = ", ".join(
        f"{_FASTER.get(name, f'the {name}')} {100 * share:.0f} %"
        for name, share in a.bound_saves.items()
    )
    path = a.critical_path
    shares = [(short(name, 40), percent(ns, path.length_ns)) for name, ns in _on_path(a)[:3]]
    top = [f"{name} {of_path} %" for name, of_path in shares]
    first = f"; {shares[0][1]} % of the critical path is {shares[0][0]}" if shares else ""
    most = f"; longest on the critical path: {', '.join(top)}" if top else ""
    share = max(a.bound_saves.values(), default=0.0)
    uncertain = "" if not a.bound_uncertain or a.bound in _UNCERTAIN else " (uncertain)"
    if a.bound == "unexplained":
        yield Answer(
            "What is it bound by?",
            f"{100 - 100 * a.explained:.0f} % unexplained",
            f"{_unsaid(a)}: devices and communication are "
            f"at work {percent(_mean(a, 'at_work_ns'), _length(a))} % of it. Twice as fast, each alone would "
            f"save: {saves}.",
            1 - a.explained,
            f": {_unsaid(a)}",
        )
    else:
        yield Answer(
            "What is it bound by?",
            f"{_leading(a)}{uncertain}",
            f"{_BOUND[a.bound]} Twice as fast, each alone would save: {saves}{most}.{_doubt(a)}",
            share,
            f"; twice as fast would save {100 * share:.0f} %{first}",
        )


def _on_path(a: Analysis) -> list[tuple[str, int]]:
    """Operators of the bounding kind on the critical path, longest first.

    Groups are named by what they are for, and equal parts of all layers (`layers.7.mlp`) are one.
    """
    role = {c.group: c.role for c in a.collectives}
    times: dict[str, int] = {}
    for kind, name, ns in a.critical_path.operators:
        if kind in _ON_PATH.get(a.bound, ()):
            words, _, group = name.rpartition(" ")
            named = f"{words} {role[group]}" if words and role.get(group) else name
            named = _LAYER.sub(".*.", named)
            if _STEP.fullmatch(name):
                named = "the program's own code"
            times[named] = times.get(named, 0) + ns
    return sorted(times.items(), key=lambda item: -item[1])


def _unsaid(a: Analysis) -> str:
    """What nothing in the trace says: what was waited for, or what the host did meanwhile."""
    late = sum(r.breakdown.idle.get("host", 0) for r in a.ranks)
    if 2 * late > a.span_ns * len(a.ranks):
        return (
            "the device waits for its host, and nothing in the trace says what that did meanwhile"
        )
    return "nothing in the trace says what most of the time was waited for"


def _doubt(a: Analysis) -> str:
    """Says what contradicts the bound that the run's own times have."""
    doubt = a.recording.doubt(a.bound, a.steps.median_ns) if a.recording else ""
    return f" {doubt}" if doubt else ""


def _leading(a: Analysis) -> str:
    if a.bound != "balanced":
        return a.bound
    names = [n for n, share in a.bound_saves.items() if share >= _NOTABLE] or list(a.bound_saves)
    return f"balanced: {' and '.join(names[:2])}"


_LAYER = re.compile(r"\.\d+\.")
_STEP = re.compile(r"ProfilerStep#\d+")
"""The range that a profiler puts around a step: its own time is what nothing inside of it has."""
_UNCERTAIN = ("balanced", "unexplained")
_ON_PATH = {
    "device": ("compute", "copy"),
    "communication": ("communication",),
    "computation": ("compute", "copy"),
    "host": ("host",),
    "data": ("host", "load"),
    "saving": ("save",),
}
_FASTER = {"computation": "computation", "data": "reading data", "saving": "saving to a store"}
"""What is faster where a resource is, if that is not the resource itself."""
_BOUND = {
    "computation": "Computation on the host bounds it.",
    "host": "The host bounds it.",
    "device": "The device bounds it.",
    "communication": "Communication bounds it.",
    "data": "Reading its data bounds it.",
    "saving": "Saving to a store bounds it.",
    "balanced": "No single resource bounds it: where one gets faster, another takes its place.",
}


def _days(a: Analysis) -> Iterator[Answer]:
    total = sum(a.campaign.values())
    lost = {name: hours for name, hours in a.campaign.items() if name != "train" and hours}
    if not total:
        return
    parts = ", ".join(
        f"{name} {hours:,.1f} h ({percent(hours, total)} %)" for name, hours in lost.items()
    )
    share = sum(lost.values()) / total
    yield Answer(
        "What cost the days?",
        f"{sum(lost.values()) / 24:,.2f} of {total / 24:,.2f} days",
        f"{parts}." if lost else "Nothing: every hour was spent on steps that counted.",
        share,
        f": {parts}" if lost else "",
    )


def _exposed(a: Analysis) -> Iterator[Answer]:
    comm = _mean(a, "comm_ns")
    if not comm:
        return
    exposed, wait, bubble = (
        _mean(a, name) for name in ("exposed_comm_ns", "exposed_wait_ns", "bubble_ns")
    )
    moving = exposed - wait - bubble
    waits = {"late ranks": wait, "messages not sent yet": bubble}
    more = " and ".join(
        f"{time_text(ns)} for {what}" for what, ns in waits.items() if ns > _NOTABLE * exposed
    )
    yield Answer(
        "How much communication is exposed?",
        time_text(moving),
        f"{_each(a)}{_a_step(a)} on average, {percent(moving, _length(a))} % of the time"
        f"{f', beside waiting: {more}' if more else ''}; computation hides "
        f"{percent(comm - exposed, comm)} % of all communication.",
        moving / _length(a),
        f" {_each(a)}{_a_step(a)}, {percent(moving, _length(a))} % of the time",
    )


def _idle(a: Analysis) -> Iterator[Answer]:
    if a.serving is not None:  # an engine without requests waits for nobody
        return
    causes: dict[str, int] = {}
    for rank in a.ranks:
        for cause, ns in rank.breakdown.idle.items():
            causes[cause] = causes.get(cause, 0) + ns
    cut = causes.pop("cut", 0)
    seen, total = a.span_ns * len(a.ranks) - cut, sum(causes.values())
    if total < max(_NOTABLE * seen, 1):
        return
    order = sorted(causes.items(), key=lambda item: -item[1])
    devices = _has_devices(a)
    why = _IDLE if devices else _IDLE | {"host": "the host's own time (Python, dispatch)"}
    if len(a.ranks) == 1:
        why = why | {"ended": "after the last work"}
    reasons = ", ".join(
        f"{why[c]} {percent(ns, total)} %" for c, ns in order if ns > _NOTABLE * total
    )
    unseen = (
        f" Left out: {percent(cut, seen + cut)} % before the first and after the last work of devices."
        if cut > _NOTABLE * seen
        else ""
    )
    yield Answer(
        "Why is it idle?" if devices else "What else takes time?",
        f"{percent(total, seen)} % {'idle' if devices else 'outside of what computes'}",
        f"{reasons}.{unseen}",
        total / seen,
        f": {why[order[0][0]]} {percent(order[0][1], total)} %",
    )


def _has_devices(a: Analysis) -> bool:
    """Whether anything runs on a device: on a host alone nothing is launched, and nothing idles."""
    lanes = [lane.lane for rank in a.ranks for lane in rank.lanes]
    return not lanes or any(not lane.startswith("thread") for lane in lanes)


_IDLE = {
    "host": "the host had not launched the next work",
    "dependency": "the next work waited for other work",
    "peer": "another rank was late",
    "bubble": "a message had not been sent",
    "data": "the next batch was not there",
    "loading": "it was reading from a store",
    "saving": "it was saving to a store",
    "ended": "the rank was done before the others",
    "unknown": "nothing in the trace says why:",
}


def _helps(a: Analysis) -> Iterator[Answer]:
    """The change that saves most of those that were tried; nothing is advised that was not."""
    if not a.advice:
        return
    best, *others = a.advice
    rest = "; ".join(
        f"{x.what} {100 * x.share:.0f} %{'' if x.same_training else ' (another batch)'}"
        for x in others[:3]
    )
    yield Answer(
        "What would help most?",
        best.what,
        f"saves {saving_text(best)}, tried by simulating it{f'. Next: {rest}' if rest else ''}. "
        f"To try it yourself: {' && '.join(best.commands)}",
        best.share,
        f": saves {saving_text(best)}",
    )


def saving_text(advice: Advice) -> str:
    """`12.3 ms (9.1–15.2) of 140 ms, 9 %`, and whether the change may be a loss."""
    interval = advice.interval_ns
    saved = interval_text(advice.saves_ns, *interval) if interval else time_text(advice.saves_ns)
    other = "" if advice.same_training else ", counted for the work of this run"
    doubt = "" if advice.certain else "; by its interval it may save nothing"
    return f"{saved} of {time_text(advice.before_ns)}, {100 * advice.share:.0f} %{other}{doubt}"


def _culprits_share(even: float) -> float:
    """Which share of all waiting makes ranks its culprits, `even` being what they are of all ranks.

    In a healthy run somebody comes last as well: it takes a tenth, and a tenth more than their due. Chosen.
    """
    return max(0.1, 1.1 * even)


def _late(a: Analysis) -> Iterator[Answer]:
    """Who makes others wait, by what one of the others waits: sums over thousands of ranks say nothing."""
    others = max(len(a.ranks) - 1, 1)
    if not a.stragglers or a.stragglers[0].caused_wait_ns < _NOTABLE * a.span_ns * others:
        return
    worst = a.stragglers[0]
    alike = [s for s in a.stragglers if s.caused_wait_ns == worst.caused_wait_ns]
    caused, total = (sum(s.caused_wait_ns for s in some) for some in (alike, a.stragglers))
    if caused < _culprits_share(len(alike) / len(a.stragglers)) * total:
        return
    how = "by messages sent late"
    if worst.times_last:
        how = f"last at {worst.times_last} of {worst.collectives} collectives"
    link = ""
    if a.slow_links:
        slow = a.slow_links[0]
        link = f" Slowest link: {slow.where}, {slow.slowdown:.2f}× its like."
    each = caused / others / _steps(a)
    yield Answer(
        "Who makes others wait?",
        named_ranks(a, sorted(s.rank for s in alike)),
        f"{'makes' if len(alike) == 1 else 'make'} every other rank wait {time_text(each)}"
        f"{_a_step(a)}, {percent(caused, total)} % of all waiting; {how}.{link}",
        each / _length(a),
        brief=f", {time_text(each)}{_a_step(a)}, {percent(caused, total)} % of all waiting",
    )


def _ranks(a: Analysis) -> str:
    return counted(len(a.ranks), "actor" if a.actors else "rank")


def _each(a: Analysis) -> str:
    return "an actor" if a.actors else "a rank"


def _waits_for_messages(a: Analysis) -> str:
    """What waiting for messages is called: without computation there is no pipeline."""
    if a.actors:
        return "How long do actors wait for messages?"
    if any(r.breakdown.compute_ns for r in a.ranks):
        return "How large are the pipeline's bubbles?"
    return "How long do ranks wait for messages?"


def _bubble(a: Analysis) -> Iterator[Answer]:
    bubble = sum(r.breakdown.parts()["bubble"] for r in a.ranks) / max(len(a.ranks), 1) / _steps(a)
    if bubble > _NOTABLE * _length(a):
        yield Answer(
            _waits_for_messages(a),
            f"{percent(bubble, _length(a))} %",
            f"{time_text(bubble)} {_each(a)}{_a_step(a)} on average is waiting for messages not sent yet.",
            bubble / _length(a),
            f" of the time, {time_text(bubble)} {_each(a)}{_a_step(a)}",
        )


def _fits(a: Analysis) -> Iterator[Answer]:
    if verdict := shortage_line(a.fits, a.needs_bytes, a.has_bytes):
        why = verdict.partition(": ")[2]
        yield Answer("Does it fit?", "no", f"{why}.", brief=f": {why}")


_KINDS = 4
"""Kinds of memory that an answer names: parameters, gradients, optimizer and activations of training."""


def _memory(a: Analysis) -> Iterator[Answer]:
    rank = next((r for r in a.memory.ranks if r.rank == a.memory.peak_rank), None)
    if rank is None:
        return
    by_size = sorted(rank.by_kind.items(), key=lambda item: -item[1])
    kinds = ", ".join(f"{k} {percent(v, rank.peak_bytes)} %" for k, v in by_size[:_KINDS])
    if list(rank.by_kind) == ["other"]:
        kinds = "weights, gradients and the rest, which the trace does not tell apart"
    yield Answer(
        "What fills the memory?",
        size_text(a.memory.peak_bytes),
        f"at most, on rank {rank.rank} at {ms(rank.peak_ns):,} ms: {kinds}."
        + (f" In memory: {a.precision}." if a.precision else ""),
        brief=f" at most, on rank {rank.rank}",
    )


def _use(a: Analysis) -> Iterator[Answer]:
    if a.roofline.ops:
        roofline = a.roofline
        mfu = f", {utilization_text(roofline.mfu, roofline.hfu)}" if roofline.mfu else ""
        yield Answer(
            "How well is the device used?",
            rate_text(a.roofline.tflops_per_rank),
            f"per rank over the whole time{mfu}.",
            a.roofline.mfu,
            f" per rank{_shares_of_peak(roofline.mfu, roofline.hfu)}{_over_more(a)}",
        )


def _shares_of_peak(mfu: float, hfu: float) -> str:
    """MFU, and before it HFU where the printed rate holds work that the model does not need."""
    texts = [f"{100 * share:.1f} %" for share in (hfu, mfu)] if mfu else []
    named = zip(("HFU", "MFU"), texts, strict=False)
    different = len(set(texts)) > 1
    return "".join(f", {name} {text}" for name, text in named if different or name == "MFU")


def _over_more(a: Analysis) -> str:
    """Says that figures are of the whole time where its mean step is not the usual one.

    A run that loads and saves between its steps, or whose first step is long, has another rate in a step.
    """
    usual = a.steps.median_ns
    if a.steps.found == "none" or abs(_length(a) - usual) <= _NOTABLE * usual:
        return ""
    return f" over all {time_text(a.span_ns)}, not a usual step"


def _takes(a: Analysis) -> Iterator[Answer]:
    footprint = a.footprint
    if footprint is None or footprint.energy_joules is None or not footprint.energy_by_class:
        return
    most = max(footprint.energy_by_class, key=lambda n: footprint.energy_by_class[n])
    clauses = [
        f"{percent(footprint.energy_by_class[most], footprint.energy_joules)} % of it {most}"
    ]
    if footprint.facility_joules:
        clauses.append(f"{energy_text(footprint.facility_joules)} with {SITE}")
    if footprint.carbon_kg:
        clauses.append(f"{mass_text(footprint.carbon_kg)} of CO2")
    if footprint.price:
        clauses.append(money_text(footprint.price))
    yield Answer(
        "What does it take?", energy_text(footprint.energy_joules), f"{'; '.join(clauses)}."
    )


def _sure(a: Analysis) -> Iterator[Answer]:
    footprint = a.footprint
    if footprint is None or footprint.interval_ns is None:
        return
    low, high = footprint.interval_ns
    computes = any(r.breakdown.compute_ns for r in a.ranks)
    rung = (
        f"computation is costed by a {footprint.rung}"
        if footprint.rung and computes
        else "times are predicted"
    )
    beyond = (
        f"; {100 * footprint.extrapolated_share:.1f} % of the devices' time lies outside of what was measured"
        if footprint.extrapolated_share
        else ""
    )
    modelled = "; between nodes it is modelled, not measured" if footprint.modelled else ""
    yield Answer(
        "How sure are the times?",
        interval_text(a.span_ns, low, high),
        f"90 of 100 measured runs should lie there: {rung}{beyond}{modelled}.",
        (high - low) / 2 / max(a.span_ns, 1),
    )
