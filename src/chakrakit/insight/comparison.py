"""Two sides compared: what is slower, faster, added, removed, and what explains the step's difference."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import msgspec
import numpy as np
import pyarrow as pa

from chakrakit.arrays import I8, I32, I64, Mask
from chakrakit.errors import ConfigError, nearest
from chakrakit.insight.analysis import Analysis, analyze
from chakrakit.insight.communication import AllCalls
from chakrakit.insight.critical_path import Graphs, Model, events_of, graph_of
from chakrakit.insight.operators import Spent
from chakrakit.insight.rank import KIND_NAMES, Kind, RankView, Table, ms, percent, rank_views, short
from chakrakit.insight.served_requests import ServingChange, serving_change
from chakrakit.insight.step_times import rows_of_steps
from chakrakit.results import Result
from chakrakit.trace.communication import turns
from chakrakit.trace.model import EdgeForm, EdgeKind
from chakrakit.trace.placement import StepRows, seen_whole, slowest, slowest_periods
from chakrakit.trace.sets import Run

# Rows of the same rank in two runs, put side by side: which is which, and which takes longer.


_CHANGED = 0.05
"""Single rows jitter: less than a twentieth either way counts as the same."""


class RowChange(IntEnum):
    """How a row takes its time beside its twin."""

    SAME = 0
    SLOWER = 1
    FASTER = 2
    ALONE = 3
    """It has no twin: it was added, or is gone on the other side."""


@dataclass(frozen=True, eq=False)
class Paired:
    """One side: for each row its twin on the other side (-1: none), and a RowChange."""

    twin: I64
    change: I8


def pair(a: RankView, b: RankView) -> tuple[Paired, Paired]:
    """Pairs the n-th row of a name and type in A with the n-th in B, by start; B is judged against A.

    Seen from A, SLOWER means that it takes longer in B, too: both twins say the same.
    """
    sides = [_keys(v) for v in (a, b)]
    number = pa.concat_arrays([names for _, names in sides]).dictionary_encode().indices
    codes = np.split(number.to_numpy(), [len(sides[0][0])])
    width = max((len(rows) for rows, _ in sides), default=0) + 1
    keys = [c.astype(np.int64) * width + turns(c) for c in codes]
    _, left, right = np.intersect1d(keys[0], keys[1], assume_unique=True, return_indices=True)
    rows_a, rows_b = sides[0][0][left], sides[1][0][right]
    change = _changes(a.duration[rows_a], b.duration[rows_b])
    return _side(len(a), rows_a, rows_b, change), _side(len(b), rows_b, rows_a, change)


def _keys(view: RankView) -> tuple[I64, pa.Array]:
    """Rows that ran in order of start, and what each is called."""
    rows = np.flatnonzero(view.ran & (view.kind != Kind.NONE))
    rows = rows[np.lexsort((rows, view.start[rows]))]
    codes, texts = view.names
    types = view.trace.types[rows].astype(np.int64)
    distinct, which = np.unique(codes[rows] * 1000 + types, return_inverse=True)
    told = [f"{key % 1000} {texts[key // 1000]}" for key in distinct.tolist()]
    return rows, pa.array(told, pa.string()).take(pa.array(which))


def _changes(a: I64, b: I64) -> I8:
    change = np.full(len(a), RowChange.SAME, np.int8)
    change[b - a > _CHANGED * a] = RowChange.SLOWER
    change[a - b > _CHANGED * a] = RowChange.FASTER
    return change


def _side(rows: int, own: I64, other: I64, change: I8) -> Paired:
    twin, told = np.full(rows, -1, np.int64), np.full(rows, RowChange.ALONE, np.int8)
    twin[own], told[own] = other, change
    return Paired(twin, told)


# Why the same program takes longer in another run: its times exchanged class by class.
#
# A critical path says what a run is made of. When one class of work becomes faster, the path moves to
# other work, and the difference of two paths names both. What changed in the first place comes out by
# scheduling run A again with the times of run B, one class of rows after the other.


_MOST_ROWS = 2_000_000
_MOST_CLASSES = 24
_ROUNDING_NS = 1
_GAPS = (EdgeKind.THREAD, EdgeKind.CALL, EdgeKind.AUTOGRAD)


@dataclass(frozen=True, eq=False)
class _Side:
    """A run as a model, what each row is called, by the number of a text, and the ranks' steps."""

    model: Model
    label: I32
    texts: list[str]
    steps: list[StepRows | None]
    """None for a rank whose run is one step."""

    def step(self, own: I64 | None = None) -> int:
        """The usual step with the model's times or these, as `compare` takes it; without steps, the whole."""
        timed = self.model.schedule(own)
        ranks = []
        for rows, first in zip(self.steps, self.model.offset.values(), strict=True):
            if rows is not None:
                spans = rows.spans(timed.start[first:], timed.end[first:])
                ranks.append({s.number: s.period for s in spans})
        return slowest(ranks) if any(ranks) else int(timed.end.max(initial=0))


def exchanged(a: Run, b: Run) -> dict[str, float] | None:
    """Shares of the change from A to B by class of work, largest first; they sum to 1.

    None where the runs are not of one program or too large; empty where they take as long as each other.
    """
    if a.ranks != b.ranks or sum(len(a.body(r)) for r in a.ranks) > _MOST_ROWS:
        return None
    left, right = _counterfactual_side(a), _counterfactual_side(b)
    if not _same_program(left, right):
        return None
    whole = right.step() - left.step()
    if not whole:
        return {}
    return {name: change / whole for name, change in _steps(left, right).items()}


def _counterfactual_side(run: Run) -> _Side:
    graphs, calls = Graphs(), AllCalls(run)
    texts: dict[str, int] = {}
    labels, steps = [], []
    for view in rank_views(run):
        graphs.add(graph_of(view))
        calls.add_view(view)
        events = events_of(view, None)
        names = [
            f"{KIND_NAMES[k]}: {short(events.texts[n])}" if k <= Kind.HOST else KIND_NAMES[k]
            for k, n in zip(view.kind.tolist(), events.operator.tolist(), strict=True)
        ]
        found, rows = rows_of_steps(view)
        steps.append(None if found == "none" else rows)
        labels.append(np.array([texts.setdefault(t, len(texts)) for t in names], np.int32))
    model = Model(graphs, calls.matched())
    return _Side(model, np.concatenate([*labels, np.zeros(0, np.int32)]), list(texts), steps)


def _same_program(a: _Side, b: _Side) -> bool:
    """Whether both have the same rows. Lanes and meetings may be in another order."""
    if a.model.rows != b.model.rows or a.texts != b.texts:
        return False
    return bool((a.label == b.label).all() and (a.model.kind == b.model.kind).all())


def _lags(a: Model, b: Model) -> I64:
    """The lags of A's edges with B's transfers and gaps of the host, where B has them."""
    lag = a.edges.lag.copy()
    both = np.flatnonzero((a.transfer[: a.rows] >= 0) & (b.transfer[: b.rows] >= 0))
    lag[a.transfer[both]] = b.edges.lag[b.transfer[both]]
    (mine, keys), (theirs, known) = _gaps(a), _gaps(b)
    if len(known):
        at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        found = known[at] == keys
        lag[mine[found]] = b.edges.lag[theirs[at[found]]]
    return lag


def _gaps(model: Model) -> tuple[I64, I64]:
    """The edges whose lag is the host's own time, and a key of each by which they are in order."""
    edges, gaps = model.edges, np.flatnonzero(np.isin(model.edges.kind, _GAPS))
    keys = (edges.src[gaps].astype(np.int64) * model.n + edges.dst[gaps]) * len(EdgeForm)
    keys += edges.form[gaps]
    order = np.argsort(keys, kind="stable")
    return gaps[order], keys[order]


def _steps(a: _Side, b: _Side) -> dict[str, int]:
    """What each class adds to the run when it takes B's times, those before it having them already."""
    owner = _edge_owner(a.model)
    changes = np.zeros(len(a.texts) + 1)
    rows = a.model.rows
    moved = np.abs(b.model.own[:rows] - a.model.own[:rows])
    np.add.at(changes, a.label, np.where(moved > _ROUNDING_NS, moved, 0))
    lags = _lags(a.model, b.model)
    lag = np.abs(lags - a.model.edges.lag)
    lag = np.where((owner >= 0) & (lag > _ROUNDING_NS), lag, 0)
    np.add.at(changes, np.where(owner >= 0, a.label[owner], len(a.texts)), lag)
    order = np.argsort(-changes[:-1], kind="stable")
    order = order[changes[order] > 0]
    return _exchange(a, b.model.own, lags, owner, _named(a.texts, order.tolist()))


def _named(texts: list[str], order: list[int]) -> dict[str, list[int]]:
    """Labels to exchange together: those that changed most one by one, the others by kind of work."""
    groups = {texts[code]: [code] for code in order[:_MOST_CLASSES]}
    for code in order[_MOST_CLASSES:]:
        groups.setdefault(f"{texts[code].partition(':')[0]}: others", []).append(code)
    return groups


def _exchange(
    a: _Side, other: I64, lags: I64, owner: I64, groups: Mapping[str, list[int]]
) -> dict[str, int]:
    """A's step, one group of rows after another given the `other` run's own times and lags."""
    model, rows = a.model, a.model.rows
    own, kept = model.own.copy(), model.edges.lag.copy()
    out: dict[str, int] = {}
    before = a.step()
    try:
        for name, codes in groups.items():
            mine: Mask = np.isin(a.label, codes)
            own[:rows][mine] = other[:rows][mine]
            edges = (owner >= 0) & mine[np.maximum(owner, 0)]
            model.edges.lag[edges] = lags[edges]
            now = a.step(own)
            out[name] = now - before
            before = now
    finally:
        model.edges.lag[:] = kept
    return out


def _edge_owner(model: Model) -> I64:
    """The row whose time each edge's lag is: a transfer's, the caller's of a gap; -1 for others."""
    owner = np.full(len(model.edges), -1, np.int64)
    gaps, _ = _gaps(model)
    owner[gaps] = model.holder[model.edges.dst[gaps]]
    rows = np.flatnonzero(model.transfer >= 0)
    owner[model.transfer[rows]] = rows
    return owner


_UNITS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
_RULE = re.compile(r"^\s*(\w+)\s*([<>]=?)\s*([-+]?[\d.]+(?:e[-+]?\d+)?)\s*(%|ns|us|µs|ms|s)?\s*$")
_COMPARISON_CHANGED = 0.01
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
        return [_comparison_changes(name, getattr(self, name)) for name in names]


def _comparison_changes(title: str, changes: Iterable[Change]) -> Table:
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
    if abs(times[1] - times[0]) <= _COMPARISON_CHANGED * times[0]:
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
