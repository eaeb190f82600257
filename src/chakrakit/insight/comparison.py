"""Two runs compared: what is slower, faster, added or removed, and what explains the difference of the step.

Rows of the same rank are paired (`pair`), the change of the step is explained by exchanging times class by
class (`exchanged`), and rules such as `step>3%` judge the result (`failures`).
"""

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
from chakrakit.insight.critical_path import Model, RankGraphs, events_of, graph_of
from chakrakit.insight.operators import Spent
from chakrakit.insight.rank import (
    KIND_NAMES,
    RankView,
    RowKind,
    Table,
    ms,
    percent,
    rank_views,
    short,
)
from chakrakit.insight.served_requests import ServingChange, serving_change
from chakrakit.insight.step_times import rows_of_steps
from chakrakit.machines.device import rungs_differ
from chakrakit.results import Result
from chakrakit.trace.communication import turns
from chakrakit.trace.model import EdgeForm, EdgeKind
from chakrakit.trace.placement import StepRows, seen_whole, slowest, slowest_periods
from chakrakit.trace.sets import Run

# --- rows of the same rank in two runs, paired -----------------------------------------------------

_CHANGED_ROW = 0.05
"""The share by which a row must differ to count as changed: single rows jitter by up to a twentieth."""


class RowChange(IntEnum):
    """How long a row takes compared with its twin in the other run."""

    SAME = 0
    SLOWER = 1
    FASTER = 2
    ALONE = 3
    """It has no twin: it was added or removed."""


@dataclass(frozen=True, eq=False)
class Paired:
    """For each row of one run, its twin in the other run (-1: none) and its RowChange."""

    twin: I64
    change: I8


def pair(a: RankView, b: RankView) -> tuple[Paired, Paired]:
    """Pairs the n-th row of a name and type in A with the n-th in B, counted by start.

    Both twins get the same RowChange: SLOWER means that the row takes longer in B.
    """
    sides = [_keys(v) for v in (a, b)]
    number = pa.concat_arrays([names for _, names in sides]).dictionary_encode().indices
    codes = np.split(number.to_numpy(), [len(sides[0][0])])
    width = max((len(rows) for rows, _ in sides), default=0) + 1
    keys = [c.astype(np.int64) * width + turns(c) for c in codes]
    _, places_a, places_b = np.intersect1d(
        keys[0], keys[1], assume_unique=True, return_indices=True
    )
    rows_a, rows_b = sides[0][0][places_a], sides[1][0][places_b]
    change = _changes(a.duration[rows_a], b.duration[rows_b])
    return _side(len(a), rows_a, rows_b, change), _side(len(b), rows_b, rows_a, change)


def _keys(view: RankView) -> tuple[I64, pa.Array]:
    """The rows that ran, in order of start, and for each a text of its type and name."""
    rows = np.flatnonzero(view.ran & (view.kind != RowKind.NONE))
    rows = rows[np.lexsort((rows, view.start[rows]))]
    codes, texts = view.names
    types = view.trace.types[rows].astype(np.int64)
    distinct, key_code = np.unique(codes[rows] * 1000 + types, return_inverse=True)
    labels = [f"{key % 1000} {texts[key // 1000]}" for key in distinct.tolist()]
    return rows, pa.array(labels, pa.string()).take(pa.array(key_code))


def _changes(a: I64, b: I64) -> I8:
    change = np.full(len(a), RowChange.SAME, np.int8)
    change[b - a > _CHANGED_ROW * a] = RowChange.SLOWER
    change[a - b > _CHANGED_ROW * a] = RowChange.FASTER
    return change


def _side(count: int, rows: I64, twin_rows: I64, change: I8) -> Paired:
    twin, changes = np.full(count, -1, np.int64), np.full(count, RowChange.ALONE, np.int8)
    twin[rows], changes[rows] = twin_rows, change
    return Paired(twin, changes)


# --- why the same program takes longer in another run: its times exchanged class by class -----------
#
# A critical path says what a run is made of. When one class of work becomes faster, the path moves to
# other work, and the difference of two paths names both. What changed in the first place comes out by
# scheduling run A again with the times of run B, one class of rows after the other.


_MOST_ROWS = 2_000_000
"""Larger runs are not scheduled again: each class costs one schedule of all rows."""
_MOST_CLASSES = 24
"""Classes exchanged one by one; the rest goes by kind of work, since each costs one more schedule."""
_ROUNDING_NS = 1
"""Times of equal work may differ by this much: both runs round to whole nanoseconds."""
_GAPS = (EdgeKind.THREAD, EdgeKind.CALL, EdgeKind.AUTOGRAD)


@dataclass(frozen=True, eq=False)
class _Side:
    """A run as a model; `label` is each row's class of work as an index into `texts`; `steps` is by rank."""

    model: Model
    label: I32
    texts: list[str]
    steps: list[StepRows | None]
    """None for a rank whose run is one step."""

    def step(self, own_ns: I64 | None = None) -> int:
        """The usual step in ns with the model's own times or these; the whole run where it has no steps."""
        timed = self.model.schedule(own_ns)
        ranks = []
        for rows, first in zip(self.steps, self.model.offset.values(), strict=True):
            if rows is not None:
                spans = rows.spans(timed.start[first:], timed.end[first:])
                ranks.append({s.number: s.period for s in spans})
        return slowest(ranks) if any(ranks) else int(timed.end.max(initial=0))


def exchanged(a: Run, b: Run) -> dict[str, float] | None:
    """The share of each class of work in the change from A to B; shares sum to 1.

    None where the runs differ in their program or are too large; empty where both take equally long.
    """
    if a.ranks != b.ranks or sum(len(a.body(r)) for r in a.ranks) > _MOST_ROWS:
        return None
    side_a, side_b = _side_of(a), _side_of(b)
    if not _same_program(side_a, side_b):
        return None
    whole = side_b.step() - side_a.step()
    if not whole:
        return {}
    return {name: change / whole for name, change in _steps(side_a, side_b).items()}


def _side_of(run: Run) -> _Side:
    graphs, calls = RankGraphs(), AllCalls(run)
    texts: dict[str, int] = {}
    labels, steps = [], []
    for view in rank_views(run):
        graphs.add(graph_of(view))
        calls.add_view(view)
        events = events_of(view, None)
        names = [
            f"{KIND_NAMES[k]}: {short(events.texts[n])}" if k <= RowKind.HOST else KIND_NAMES[k]
            for k, n in zip(view.kind.tolist(), events.operator.tolist(), strict=True)
        ]
        step_source, rows = rows_of_steps(view)
        steps.append(None if step_source == "none" else rows)
        labels.append(np.array([texts.setdefault(t, len(texts)) for t in names], np.int32))
    model = Model(graphs, calls.matched())
    return _Side(model, np.concatenate([*labels, np.zeros(0, np.int32)]), list(texts), steps)


def _same_program(a: _Side, b: _Side) -> bool:
    """Whether both runs have the same rows; the order on lanes and in collectives may differ."""
    if a.model.rows != b.model.rows or a.texts != b.texts:
        return False
    return bool((a.label == b.label).all() and (a.model.kind == b.model.kind).all())


def _lags(a: Model, b: Model) -> I64:
    """The lags of A's edges, with transfers and gaps of the host taken from B where B has them."""
    lag = a.edges.lag.copy()
    both = np.flatnonzero((a.transfer[: a.rows] >= 0) & (b.transfer[: b.rows] >= 0))
    lag[a.transfer[both]] = b.edges.lag[b.transfer[both]]
    (mine, keys), (theirs, their_keys) = _gaps(a), _gaps(b)
    if len(their_keys):
        at = np.minimum(np.searchsorted(their_keys, keys), len(their_keys) - 1)
        in_both = their_keys[at] == keys
        lag[mine[in_both]] = b.edges.lag[theirs[at[in_both]]]
    return lag


def _gaps(model: Model) -> tuple[I64, I64]:
    """The edges whose lag is time of the host, sorted by a key that they have in both runs."""
    edges, gaps = model.edges, np.flatnonzero(np.isin(model.edges.kind, _GAPS))
    keys = (edges.src[gaps].astype(np.int64) * model.n + edges.dst[gaps]) * len(EdgeForm)
    keys += edges.form[gaps]
    order = np.argsort(keys, kind="stable")
    return gaps[order], keys[order]


def _steps(a: _Side, b: _Side) -> dict[str, int]:
    """How much longer A's step gets as one class after another takes B's times."""
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
    return _exchange(a, b.model.own, lags, owner, _exchange_groups(a.texts, order.tolist()))


def _exchange_groups(texts: list[str], order: list[int]) -> dict[str, list[int]]:
    """Labels to exchange together: those that changed most one by one, the rest by kind of work."""
    groups = {texts[code]: [code] for code in order[:_MOST_CLASSES]}
    for code in order[_MOST_CLASSES:]:
        groups.setdefault(f"{texts[code].partition(':')[0]}: others", []).append(code)
    return groups


def _exchange(
    a: _Side, other_own_ns: I64, lags: I64, owner: I64, groups: Mapping[str, list[int]]
) -> dict[str, int]:
    """By how much A's step changes as one group of rows after another gets the other run's times and lags."""
    model, rows = a.model, a.model.rows
    own_ns, original_lag = model.own.copy(), model.edges.lag.copy()
    out: dict[str, int] = {}
    before = a.step()
    try:
        for name, codes in groups.items():
            mine: Mask = np.isin(a.label, codes)
            own_ns[:rows][mine] = other_own_ns[:rows][mine]
            edges = (owner >= 0) & mine[np.maximum(owner, 0)]
            model.edges.lag[edges] = lags[edges]
            now = a.step(own_ns)
            out[name] = now - before
            before = now
    finally:
        model.edges.lag[:] = original_lag
    return out


def _edge_owner(model: Model) -> I64:
    """For each edge, the row that its lag belongs to: a transfer's call, or a gap's caller; -1 for others."""
    owner = np.full(len(model.edges), -1, np.int64)
    gaps, _ = _gaps(model)
    owner[gaps] = model.holder[model.edges.dst[gaps]]
    rows = np.flatnonzero(model.transfer >= 0)
    owner[model.transfer[rows]] = rows
    return owner


_UNITS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
_RULE = re.compile(r"^\s*(\w+)\s*([<>]=?)\s*([-+]?[\d.]+(?:e[-+]?\d+)?)\s*(%|ns|us|µs|ms|s)?\s*$")
_CHANGED_SUM = 0.01
"""The share by which an operator's sum must differ to count as changed; sums jitter less than single rows."""
_MOST_CAUSES = 100
"""Causes listed one by one: more than anybody reads, few enough for a page; the rest is summed by kind."""
_WORK = ("compute", "communication", "copy", "host")


class StepChange(Result, msgspec.Struct):
    """The usual step of both sides. `noise_ns` is half of how far the steps of one side lie apart."""

    a_ns: int
    b_ns: int
    ratio: float
    delta_ns: int
    noise_ns: int
    significant: bool
    a_steps: list[int]
    b_steps: list[int]


class Explained(Result, msgspec.Struct):
    """A part of the step's difference, positive where B takes longer; all parts sum to the difference."""

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


class Comparison(Result, msgspec.Struct, kw_only=True):
    """The comparison of B with A. `metrics` is what `--fail-if` can name: {name: (a, b)}."""

    step: StepChange
    explained: list[Explained]
    breakdown: list[Explained]
    """The same difference by what the mean rank does; these parts sum to it as well."""
    operators: list[Change]
    modules: list[Change]
    groups: list[Change]
    metrics: dict[str, tuple[float, float]]
    notes: list[str]
    broken: list[str] = []
    """Rules of `--fail-if` that B breaks."""
    warning: str = ""
    """A warning to show before everything else; empty if there is none."""
    incomparable: bool = False
    """Whether computation is costed in two ways that cannot be compared."""
    serving: ServingChange | None = None
    """Why B's requests take longer or shorter; None unless both runs served requests."""

    def tables(self) -> list[Table]:
        """The comparison as tables for people, the explanation first."""
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
        return [_change_table(name, getattr(self, name)) for name in names]


def _change_table(title: str, changes: Iterable[Change]) -> Table:
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
    """Compares B with A; several runs of a side show how large the noise is."""
    runs = [[s] if isinstance(s, Run) else list(s) for s in (a, b)]
    comparison = compare_analyses(*([analyze(r) for r in side] for side in runs))
    shares = exchanged(runs[0][0], runs[1][0])
    if shares or (shares is not None and not comparison.step.delta_ns):
        comparison.explained = _explained_by_exchange(shares, comparison.step)
    return comparison


def compare_analyses(a: list[Analysis], b: list[Analysis]) -> Comparison:
    """Compares analyses of B with those of A: the first of each side is explained, all show the noise."""
    first, second = a[0], b[0]
    step = _step(a, b)
    notes = _notes(first, second)
    return Comparison(
        step=step,
        explained=_explained(_path_shares(first), _path_shares(second), step),
        breakdown=_explained(_breakdown_shares(first), _breakdown_shares(second), step),
        operators=_section_changes(first, second, "operators"),
        modules=_section_changes(first, second, "modules"),
        groups=_groups(first, second),
        metrics=_metrics(first, second, step),
        notes=notes,
        warning=_warning(first, second),
        incomparable=_incomparable(first, second),
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
    """The slowest rank's period of each step that was recorded whole; the whole run where it has no steps."""
    if analysis.steps.found == "none":
        return [analysis.span_ns]
    return seen_whole(slowest_periods({s.step: s.period_ns} for s in analysis.steps.steps))


def _path_shares(analysis: Analysis) -> dict[str, float]:
    """The parts of the critical path as shares of its length: work by operator, waits by kind."""
    total = max(analysis.critical_path.length_ns, 1)
    return _sums(
        (f"{kind}: {short(name)}" if kind in _WORK else kind, ns / total)
        for kind, name, ns in analysis.critical_path.operators
    )


def _breakdown_shares(analysis: Analysis) -> dict[str, float]:
    """What the mean rank does, as shares of the span."""
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
    """The step's difference by cause, from the causes' shares of each side's step; parts sum to it."""
    deltas = {k: b.get(k, 0.0) * step.b_ns - a.get(k, 0.0) * step.a_ns for k in {**a, **b}}
    order = sorted(deltas, key=lambda k: (-abs(deltas[k]), k))
    out = [Explained(k, round(deltas[k])) for k in order if round(deltas[k])]
    listed, rest = out[:_MOST_CAUSES], Counter[str]()
    for part in out[_MOST_CAUSES:]:
        rest[f"{part.what.partition(':')[0]}: others"] += part.delta_ns
    listed += [Explained(cause, delta) for cause, delta in rest.items()]
    missing = step.delta_ns - sum(e.delta_ns for e in listed)
    return [*listed, Explained("everything else", missing)] if missing else listed


def _explained_by_exchange(shares: dict[str, float], step: StepChange) -> list[Explained]:
    """The step's difference by class of work, from the shares that `exchanged` found."""
    out = [Explained(cause, round(share * step.delta_ns)) for cause, share in shares.items()]
    out = sorted((e for e in out if e.delta_ns), key=lambda e: (-abs(e.delta_ns), e.what))
    missing = step.delta_ns - sum(e.delta_ns for e in out)
    return [*out, Explained("everything else", missing)] if missing else out


def _count(analysis: Analysis) -> int:
    return (
        max(len({s.step for s in analysis.steps.steps}), 1) if analysis.steps.found != "none" else 1
    )


def _section_changes(a: Analysis, b: Analysis, section: str) -> list[Change]:
    return _paired_changes(
        getattr(a.operators, section),
        getattr(b.operators, section),
        _count(a) * max(len(a.ranks), 1),
        _count(b) * max(len(b.ranks), 1),
    )


def _paired_changes(a: list[Spent], b: list[Spent], per_a: float, per_b: float) -> list[Change]:
    """Sums of both sides paired by name and kind, per step and rank."""
    by_key_a, by_key_b = ({(s.name, s.kind): s for s in side} for side in (a, b))
    out = []
    for key in {**by_key_a, **by_key_b}:
        x, y = by_key_a.get(key), by_key_b.get(key)
        counts = (x.count / per_a if x else 0.0, y.count / per_b if y else 0.0)
        times = (x.time_ns / per_a if x else 0.0, y.time_ns / per_b if y else 0.0)
        out.append(
            Change(
                key[0], key[1], _change_word(counts, times), *counts, *times, times[1] - times[0]
            )
        )
    return sorted(out, key=lambda c: (-abs(c.delta_ns), c.name))


def _change_word(counts: tuple[float, float], times: tuple[float, float]) -> str:
    if not counts[0] or not counts[1]:
        return "added" if counts[1] else "removed"
    if abs(times[1] - times[0]) <= _CHANGED_SUM * times[0]:
        return "same"
    return "slower" if times[1] > times[0] else "faster"


def _groups(a: Analysis, b: Analysis) -> list[Change]:
    """Collectives paired by type and group: transfer and waiting, per step."""
    sides = []
    for x in (a, b):
        sums: dict[tuple[str, str], Spent] = {}
        for c in x.collectives:
            key = (f"{c.type} {c.group or '(all)'}", "comm")
            old = sums.setdefault(
                key,
                Spent(name=key[0], kind="comm", count=0, time_ns=0, mean_ns=0.0, ops=0, bytes=0),
            )
            old.count += c.count
            old.time_ns += round(c.count * c.transfer_ns) + c.total_wait_ns
        sides.append(list(sums.values()))
    return _paired_changes(sides[0], sides[1], _count(a), _count(b))


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
        figures_a, figures_b = a.footprint.figures(), b.footprint.figures()
        out |= {name: (figures_a[name], figures_b[name]) for name in figures_a if name in figures_b}
    if a.serving is not None and b.serving is not None:
        for name in ("ttft", "tpot", "e2e"):
            spreads = (getattr(x.serving, f"{name}_ms") for x in (a, b))
            mean_a, mean_b = (s.mean * 1e6 for s in spreads)
            out[name] = (mean_a, mean_b)
    return out


def _per_rank_and_step(analysis: Analysis, spent_ns: Iterable[float]) -> float:
    return sum(spent_ns) / max(len(analysis.ranks), 1) / _count(analysis)


def _incomparable(a: Analysis, b: Analysis) -> bool:
    return rungs_differ(x.footprint.rung if x.footprint else "" for x in (a, b))


def _warning(a: Analysis, b: Analysis) -> str:
    warnings = [f"{side}: {x.warning}" for side, x in (("A", a), ("B", b)) if x.warning]
    rungs = [x.footprint.rung if x.footprint else "" for x in (a, b)]
    if _incomparable(a, b):
        warnings.append(_RUNGS.format(*rungs))
    return "; ".join(warnings)


_RUNGS = (
    "computation is costed by {} in A and by {} in B, so that their difference says nothing about the two "
    "machines; simulate both with one --compute"
)


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
        """Why B breaks the rule; empty if it does not. A step's change within the noise breaks none."""
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
        change_text = f"{moved:+.2f} %" if self.unit == "%" else f"{moved:+,.0f} ns"
        side = "more" if self.above else "less"
        return f"{self.metric} changed by {change_text}, {side} than {self.limit:g} {self.unit}"


def parse_rule(text: str) -> Rule:
    """Reads a rule such as `step>3%` from a command line."""
    match = _RULE.match(text)
    if match is None:
        raise ConfigError(f"--fail-if {text!r}: write METRIC>LIMIT as in 'step>3%' or 'idle>2ms'")
    metric, sign, limit, unit = match.groups()
    return Rule(metric, sign.startswith(">"), float(limit), unit or "")


def failures(result: Comparison, rules: Iterable[str]) -> list[str]:
    """For each rule that B breaks, a sentence that says how; an error where the two cannot be compared."""
    rules = list(rules)
    if rules and result.incomparable:
        raise ConfigError(f"--fail-if: {result.warning}")
    return [why for text in rules if (why := parse_rule(text).fails(result))]
