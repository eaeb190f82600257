"""Two sides compared: what is slower, faster, added, removed, and what explains the step's difference."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from chakrakit.errors import ConfigError, nearest
from chakrakit.insight.analysis import Analysis, analyze
from chakrakit.insight.compare.counterfactual import exchanged
from chakrakit.insight.rank import Table, ms, percent, short
from chakrakit.insight.serving import ServingChange, serving_change
from chakrakit.insight.time import Spent
from chakrakit.results import Result
from chakrakit.trace.placement import seen_whole, slowest_periods
from chakrakit.trace.sets import Run

_UNITS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
_RULE = re.compile(r"^\s*(\w+)\s*([<>]=?)\s*([-+]?[\d.]+(?:e[-+]?\d+)?)\s*(%|ns|us|µs|ms|s)?\s*$")
_CHANGED = 0.01
"""Less than a hundredth either way counts as unchanged."""
_MOST = 100
_WORK = ("compute", "communication", "copy", "host")


class StepChange(Result, msgspec.Struct):
    """The usual step of both sides. `noise_ns` is how far steps of the same side lie apart."""

    a_ns: int
    b_ns: int
    ratio: float
    delta_ns: int
    noise_ns: int
    significant: bool
    a_steps: list[int]
    b_steps: list[int]


class Explained(Result, msgspec.Struct):
    """A part of the difference of the step: positive where B takes longer. All parts sum to it."""

    what: str
    delta_ns: int


class Change(Result, msgspec.Struct):
    """One operator, module or group on both sides, per step."""

    name: str
    kind: str
    change: str
    """added, removed, slower, faster or same."""
    a_count: float
    b_count: float
    a_ns: float
    b_ns: float
    delta_ns: float


class Comparison(Result, msgspec.Struct):
    """Both sides. `metrics` are what `--fail-if` can ask for: {name: (a, b)}."""

    step: StepChange
    explained: list[Explained]
    breakdown: list[Explained]
    """The same difference by what ranks do on average; sums to it as well."""
    operators: list[Change]
    modules: list[Change]
    groups: list[Change]
    metrics: dict[str, tuple[float, float]]
    notes: list[str]
    broken: list[str] = []
    """Rules of `--fail-if` that B breaks."""
    warning: str = ""
    """To be shown before everything else; empty where there is nothing to warn of."""
    serving: ServingChange | None = None
    """Of two served streams: why B's requests take longer."""

    def tables(self) -> list[Table]:
        """For people: the explanation first."""
        s = self.step
        sign = "" if s.significant else ", within the noise"
        title = (
            f"step {ms(s.a_ns):,} → {ms(s.b_ns):,} ms ({100 * (s.ratio - 1):+.2f} %, "
            f"noise {ms(s.noise_ns):,} ms{sign})"
        )
        rows = [
            (e.what, ms(e.delta_ns), percent(e.delta_ns, s.delta_ns)) for e in self.explained
        ] or [("nothing: it takes as long", 0.0, 0.0)]
        return [
            *(self.serving.tables() if self.serving else []),
            Table.of(title, ("explained by", "ms", "% of it"), rows),
            Table.of(
                "by what ranks do",
                ("what", "ms"),
                [(e.what, ms(e.delta_ns)) for e in self.breakdown],
            ),
            *self.lists(),
        ]

    def lists(self) -> list[Table]:
        """Operators, modules and groups that differ."""
        names = ("operators", "modules", "groups")
        return [_changes(name, getattr(self, name)) for name in names]


def _changes(title: str, changes: Iterable[Change]) -> Table:
    rows = [
        (
            short(c.name),
            c.kind,
            c.change,
            round(c.a_count, 2),
            round(c.b_count, 2),
            ms(c.a_ns),
            ms(c.b_ns),
            ms(c.delta_ns),
        )
        for c in changes
        if c.change != "same"
    ]
    head = ("name", "kind", "change", "count A", "count B", "A ms", "B ms", "Δ ms")
    return Table.of(f"{title} per step", head, rows)


def compare(a: Run | Sequence[Run], b: Run | Sequence[Run]) -> Comparison:
    """Compares B with A; several runs a side give the noise."""
    runs = [[s] if isinstance(s, Run) else list(s) for s in (a, b)]
    found = compare_analyses(*([analyze(r) for r in side] for side in runs))
    shares = exchanged(runs[0][0], runs[1][0])
    if shares or (shares is not None and not found.step.delta_ns):
        found.explained = _shared_out(shares, found.step)
    return found


def compare_analyses(a: list[Analysis], b: list[Analysis]) -> Comparison:
    """The same from analyses at hand: the first of each side explains, all give the noise."""
    first, second = a[0], b[0]
    step = _step(a, b)
    notes = _notes(first, second)
    return Comparison(
        step,
        _explained(_path_shares(first), _path_shares(second), step),
        _explained(_breakdown_shares(first), _breakdown_shares(second), step),
        _lists(first, second, "operators"),
        _lists(first, second, "modules"),
        _groups(first, second),
        _metrics(first, second, step),
        notes,
        warning=_warning(first, second),
        serving=serving_change(first.serving, second.serving),
    )


def _step(a: list[Analysis], b: list[Analysis]) -> StepChange:
    sides = [[p for x in side for p in step_periods(x)] for side in (a, b)]
    usual = [int(np.median([x.steps.median_ns for x in side])) for side in (a, b)]
    noise = max((max(s) - min(s)) // 2 if len(s) > 1 else 0 for s in sides)
    delta = usual[1] - usual[0]
    ratio = usual[1] / usual[0] if usual[0] else float(usual[1] > 0) or 1.0
    return StepChange(usual[0], usual[1], ratio, delta, noise, abs(delta) > noise, *sides)


def step_periods(analysis: Analysis) -> list[int]:
    """The slowest rank's period of each step, as far as it was seen whole; the run where it has none."""
    if analysis.steps.found == "none":
        return [analysis.span_ns]
    return seen_whole(slowest_periods({s.step: s.period_ns} for s in analysis.steps.steps))


def _path_shares(analysis: Analysis) -> dict[str, float]:
    """What the critical path is made of, as shares of its length; work by operator, waits by name."""
    total = max(analysis.critical_path.length_ns, 1)
    return _sums(
        (f"{what}: {short(name)}" if what in _WORK else what, ns / total)
        for what, name, ns in analysis.critical_path.operators
    )


def _breakdown_shares(analysis: Analysis) -> dict[str, float]:
    """The mean rank's time, as shares of the span."""
    ranks, total = max(len(analysis.ranks), 1), max(analysis.span_ns, 1)
    parts = ("compute_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns")
    mean = {p: sum(getattr(r.breakdown, p) for r in analysis.ranks) / ranks for p in parts}
    return {p.removesuffix("_ns").replace("_", " "): ns / total for p, ns in mean.items()}


def _sums(items: Iterable[tuple[str, float]]) -> dict[str, float]:
    out: dict[str, float] = {}
    for key, value in items:
        out[key] = out.get(key, 0.0) + value
    return out


def _explained(a: dict[str, float], b: dict[str, float], step: StepChange) -> list[Explained]:
    """Shares of each side's step; the parts are rounded so that they sum to the difference."""
    deltas = {k: b.get(k, 0.0) * step.b_ns - a.get(k, 0.0) * step.a_ns for k in {**a, **b}}
    order = sorted(deltas, key=lambda k: (-abs(deltas[k]), k))
    out = [Explained(k, round(deltas[k])) for k in order if round(deltas[k])]
    kept, others = out[:_MOST], Counter[str]()
    for part in out[_MOST:]:
        others[f"{part.what.partition(':')[0]}: others"] += part.delta_ns
    kept += [Explained(what, delta) for what, delta in others.items()]
    missing = step.delta_ns - sum(e.delta_ns for e in kept)
    return [*kept, Explained("everything else", missing)] if missing else kept


def _shared_out(shares: dict[str, float], step: StepChange) -> list[Explained]:
    """The step's change by what changed, for two runs of one program."""
    out = [Explained(what, round(share * step.delta_ns)) for what, share in shares.items()]
    out = sorted((e for e in out if e.delta_ns), key=lambda e: (-abs(e.delta_ns), e.what))
    missing = step.delta_ns - sum(e.delta_ns for e in out)
    return [*out, Explained("everything else", missing)] if missing else out


def _count(analysis: Analysis) -> int:
    return (
        max(len({s.step for s in analysis.steps.steps}), 1) if analysis.steps.found != "none" else 1
    )


def _lists(a: Analysis, b: Analysis, what: str) -> list[Change]:
    return _matched(
        getattr(a.operators, what),
        getattr(b.operators, what),
        _count(a) * max(len(a.ranks), 1),
        _count(b) * max(len(b.ranks), 1),
    )


def _matched(a: list[Spent], b: list[Spent], per_a: float, per_b: float) -> list[Change]:
    """By name and kind, per step and rank."""
    left, right = ({(s.name, s.kind): s for s in side} for side in (a, b))
    out = []
    for key in {**left, **right}:
        x, y = left.get(key), right.get(key)
        counts = (x.count / per_a if x else 0.0, y.count / per_b if y else 0.0)
        times = (x.time_ns / per_a if x else 0.0, y.time_ns / per_b if y else 0.0)
        out.append(
            Change(key[0], key[1], _word(counts, times), *counts, *times, times[1] - times[0])
        )
    return sorted(out, key=lambda c: (-abs(c.delta_ns), c.name))


def _word(counts: tuple[float, float], times: tuple[float, float]) -> str:
    if not counts[0] or not counts[1]:
        return "added" if counts[1] else "removed"
    if abs(times[1] - times[0]) <= _CHANGED * times[0]:
        return "same"
    return "slower" if times[1] > times[0] else "faster"


def _groups(a: Analysis, b: Analysis) -> list[Change]:
    """Collectives by type and group: transfer and waiting, per step."""
    sides = []
    for x in (a, b):
        sums: dict[tuple[str, str], Spent] = {}
        for c in x.collectives:
            key = (f"{c.type} {c.group or '(all)'}", "comm")
            old = sums.setdefault(key, Spent(key[0], "comm", 0, 0, 0.0, 0, 0))
            old.count += c.count
            old.time_ns += round(c.count * c.transfer_ns) + c.total_wait_ns
        sides.append(list(sums.values()))
    return _matched(sides[0], sides[1], _count(a), _count(b))


def _metrics(a: Analysis, b: Analysis, step: StepChange) -> dict[str, tuple[float, float]]:
    out: dict[str, tuple[float, float]] = {
        "step": (step.a_ns, step.b_ns),
        "span": (a.span_ns, b.span_ns),
    }
    for name in ("compute", "comm", "exposed_comm", "copy", "exposed_copy", "idle", "bubble"):
        field = f"{name}_ns"
        out[name] = (
            _per_rank_and_step(a, (getattr(r.breakdown, field) for r in a.ranks)),
            _per_rank_and_step(b, (getattr(r.breakdown, field) for r in b.ranks)),
        )
    out["memory"] = (a.memory.peak_bytes, b.memory.peak_bytes)
    if a.storage and b.storage:
        out["storage_wait"] = (
            _per_rank_and_step(a, (s.wait_ns for s in a.storage)),
            _per_rank_and_step(b, (s.wait_ns for s in b.storage)),
        )
    if a.footprint is not None and b.footprint is not None:
        left, right = a.footprint.figures(), b.footprint.figures()
        out |= {name: (left[name], right[name]) for name in left if name in right}
    if a.serving is not None and b.serving is not None:
        for name in ("ttft", "tpot", "e2e"):
            spreads = (getattr(x.serving, f"{name}_ms") for x in (a, b))
            mean_a, mean_b = (s.mean * 1e6 for s in spreads)
            out[name] = (mean_a, mean_b)
    return out


def _per_rank_and_step(analysis: Analysis, spent_ns: Iterable[float]) -> float:
    return sum(spent_ns) / max(len(analysis.ranks), 1) / _count(analysis)


def _warning(a: Analysis, b: Analysis) -> str:
    return "; ".join(f"{side}: {x.warning}" for side, x in (("A", a), ("B", b)) if x.warning)


def _notes(a: Analysis, b: Analysis) -> list[str]:
    notes = [f"{side}: {n}" for side, x in (("A", a), ("B", b)) for n in x.notes]
    if len(a.ranks) != len(b.ranks):
        notes.append(f"A has {len(a.ranks)} ranks and B {len(b.ranks)}; sums are per rank")
    if a.steps.found == "none" or b.steps.found == "none":
        notes.append("no steps were found: the whole run counts as one")
    return notes


class Rule(Result, msgspec.Struct, frozen=True):
    """`step>3%`: fail when B exceeds A by more than 3 %; `idle>2ms` by more than 2 ms."""

    metric: str
    above: bool
    limit: float
    unit: str

    def fails(self, result: Comparison) -> str:
        """Why it fails, or nothing. A step within the noise does not fail."""
        if self.metric not in result.metrics:
            raise ConfigError(f"no metric {self.metric!r}; {nearest(self.metric, result.metrics)}")
        a, b = result.metrics[self.metric]
        change = b - a
        moved = (
            (100 * change / a if a else (float("inf") if change > 0 else 0.0))
            if self.unit == "%"
            else change
        )
        limit = self.limit * (1.0 if self.unit == "%" else _UNITS.get(self.unit, 1.0))
        over = moved > limit if self.above else moved < limit
        if not over or (self.metric == "step" and not result.step.significant):
            return ""
        shown = f"{moved:+.2f} %" if self.unit == "%" else f"{moved:+,.0f} ns"
        side = "more" if self.above else "less"
        return f"{self.metric} changed by {shown}, {side} than {self.limit:g} {self.unit}"


def parse_rule(text: str) -> Rule:
    """A rule from a command line."""
    found = _RULE.match(text)
    if found is None:
        raise ConfigError(f"--fail-if {text!r}: write METRIC>LIMIT as in 'step>3%' or 'idle>2ms'")
    metric, sign, limit, unit = found.groups()
    return Rule(metric, sign.startswith(">"), float(limit), unit or "")


def failures(result: Comparison, rules: Iterable[str]) -> list[str]:
    """What the rules say against B."""
    return [why for text in rules if (why := parse_rule(text).fails(result))]
