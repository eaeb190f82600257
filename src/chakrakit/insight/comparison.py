"""Two runs compared: what is slower, faster, added or removed, and what explains the difference of the step.

Rows of the same rank are paired (`pair`), the change of the step is explained by exchanging times class by
class (`explanation`), and rules such as `step>3%` judge the result (`failures`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import msgspec
import numpy as np
import pyarrow as pa

from chakrakit.arrays import I8, I64
from chakrakit.errors import ConfigError, nearest
from chakrakit.insight.analysis import STEP_TIMES, Analysis, analyze
from chakrakit.insight.breakdown import PARTS
from chakrakit.insight.changed_settings import changed_settings
from chakrakit.insight.communication import role_of
from chakrakit.insight.explanation import DURATIONS, WORK, Explained, explanation
from chakrakit.insight.gap import GapPart, gap_of, gap_table
from chakrakit.insight.operators import Spent
from chakrakit.insight.rank import Cell, RankView, RowKind, Table, ms, percent, short, stretches
from chakrakit.insight.served_requests import ServingChange, serving_change
from chakrakit.machines.device import RECORDED, rungs_differ
from chakrakit.machines.residuals import difference, interval_in
from chakrakit.results import Result, counted, three_digits
from chakrakit.trace.communication import turns
from chakrakit.trace.placement import seen_whole, slowest_periods
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
    significant: bool | None
    """Whether the sides differ beyond the noise of their steps and, where both were predicted, by an interval
    that excludes zero; None where nothing tells the noise, as with one recorded step a side."""
    a_steps: list[int]
    b_steps: list[int]

    @property
    def within_noise(self) -> bool:
        """Whether steps of one side differ by as much."""
        return abs(self.delta_ns) <= self.noise_ns


class ChangeCause(Result, msgspec.Struct):
    """What changed between two runs, and what it adds to the step; all causes sum to its difference."""

    change: str
    """`work` (other operations or sizes), `durations` (the same in another time), `gaps`, `overlap` (the same
    in the same time, less or more of it side by side) or `waiting`."""
    what: str
    """The kind of work or of waiting, and the class that makes up most of it."""
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
    causes: list[ChangeCause] = []
    """What changed, largest first: work, durations, gaps, overlap and waiting apart, by kind of work."""
    explained: list[Explained]
    """The same in detail: one part for each class of work."""
    breakdown: list[Explained]
    """The same difference by what the mean rank does; these parts sum to it as well."""
    operators: list[Change]
    modules: list[Change]
    groups: list[Change]
    metrics: dict[str, tuple[float, float]]
    notes: list[str]
    broken: list[str] = []
    """Rules of `--fail-if` that B breaks."""
    undecided: list[str] = []
    """Rules whose limit the step exceeds by a change that could be none: it is within the noise, or the
    interval of the difference includes zero."""
    warning: str = ""
    """A warning to show before everything else; empty if there is none."""
    gap: list[GapPart] = []
    """For a predicted A and a recorded B: measured − predicted in parts that sum, largest first."""
    interval_ns: tuple[float, float] | None = None
    """Where the difference should lie in 90 of 100 measured pairs, for two predicted runs: errors that both
    have cancel, so that it is narrower than the intervals of the two."""
    incomparable: bool = False
    """Whether the difference says nothing: computation is costed in two ways, a run hangs, or the two are of
    different kinds."""
    serving: ServingChange | None = None
    """Why B's requests take longer or shorter; None unless both runs served requests."""

    def tables(self) -> list[Table]:
        """The comparison as tables for people, the explanation first."""
        return [*self.answers(), *self.details()]

    def _noise(self) -> str:
        """How far the steps of one side lie apart, where a side has more than one."""
        step = self.step
        if max(len(step.a_steps), len(step.b_steps)) < 2:
            return "noise not known"
        return f"noise {ms(step.noise_ns):,} ms{', within it' if step.within_noise else ''}"

    def answers(self) -> list[Table]:
        """How the step changed and what explains it: what a first screen holds."""
        s = self.step
        title = (
            f"step {ms(s.a_ns):,} → {ms(s.b_ns):,} ms ({round(100 * (s.ratio - 1), 2) + 0.0:+.2f} %, "
            f"{self._noise()}){self._within()}"
        )
        rows = [
            (c.change, c.what, ms(c.delta_ns), percent(c.delta_ns, s.delta_ns)) for c in self.causes
        ] or [("", "nothing: it takes as long", 0.0, 0.0)]
        if (
            self.serving
        ):  # requests have no step: the whole run's time says when the last of them came
            return self.serving.tables()
        return [
            *([gap_table(self.gap, s.delta_ns)] if self.gap else []),
            Table.of(title, ("changed", "what", "ms", "% of it"), rows),
        ]

    def details(self) -> list[Table]:
        """The same by class of work and by what ranks do, then operators, modules and groups."""
        whole = self.step.delta_ns
        detail = [
            (e.change, e.what, ms(e.delta_ns), percent(e.delta_ns, whole)) for e in self.explained
        ]
        return [
            Table.of("in detail", ("changed", "what", "ms", "% of it"), detail),
            Table.of(
                "by what ranks do",
                ("what", "ms"),
                [(e.what, ms(e.delta_ns)) for e in self.breakdown],
            ),
            *self.lists(),
        ]

    def _within(self) -> str:
        """The interval of the difference of two predicted runs, and whether it could be zero."""
        if self.interval_ns is None:
            return ""
        low, high = self.interval_ns
        open_sign = "; it could be zero" if low <= 0 <= high else ""
        least, most = (three_digits(bound / 1e6, "+") for bound in self.interval_ns)
        return f"; the difference {least} to {most} ms{open_sign}"

    def lists(self) -> list[Table]:
        """Operators, modules and groups that differ."""
        return [
            _change_table("operators", self.operators),
            _change_table("modules", self.modules),
            _change_table("groups", self.groups),
        ]


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
    return _with_alike_in_one(Table.of(f"{title} per step", head, rows))


_NUMBERED = re.compile(r"(?P<name>.*\D)(?P<number>\d+)$")


def _with_alike_in_one(table: Table) -> Table:
    """The table with one row for all of a name but for its number that did the same in the same time."""
    numbers: dict[tuple[Cell, ...], list[int]] = {}
    for name, *figures in table.rows:
        part = _NUMBERED.match(str(name))
        key = (part["name"] if part else str(name), *figures)
        numbers.setdefault(key, []).extend([int(part["number"])] if part else [])
    rows = [
        (f"{name}{stretches(sorted(alike))}" if alike else name, *figures)
        for (name, *figures), alike in numbers.items()
    ]
    return Table.of(table.title, table.head, rows)


def compare(a: Run | Sequence[Run], b: Run | Sequence[Run]) -> Comparison:
    """Compares B with A; several runs of a side show how large the noise is."""
    runs = [[s] if isinstance(s, Run) else list(s) for s in (a, b)]
    before, after = ([analyze(r) for r in side] for side in runs)
    return compare_analyses(before, after, (runs[0][0], runs[1][0]))


def compare_analyses(
    a: list[Analysis], b: list[Analysis], runs: tuple[Run, Run] | None = None
) -> Comparison:
    """Compares analyses of B with those of A: the first of each side is explained, all show the noise.

    With the runs of the first ones, the difference is explained by exchanging their times, else by what is on
    their critical paths.
    """
    first, second = a[0], b[0]
    usual = _usual(a), _usual(b)
    interval = _interval(first, second, usual)
    step = _step(a, b, usual, interval)
    notes = _notes(first, second)
    parts = explanation(*runs) if runs is not None else None
    if parts is None:
        explained = _explained(_path_shares(first), _path_shares(second), step)
    else:
        explained = _with_structure(parts, step, first, second)
    explained = _by_role(explained, first, second)
    return Comparison(
        step=step,
        causes=_causes(explained, first, second, changed_settings(*runs) if runs else ""),
        explained=explained,
        breakdown=_explained(_breakdown_shares(first), _breakdown_shares(second), step),
        operators=_section_changes(first, second, "operators"),
        modules=_section_changes(first, second, "modules"),
        groups=_groups(first, second),
        metrics=_metrics(first, second, step),
        notes=notes,
        warning=_warning(first, second),
        gap=_gap(first, second, step.delta_ns, runs),
        interval_ns=interval,
        incomparable=bool(_incomparable(first, second)),
        serving=serving_change(first.serving, second.serving),
    )


def _usual(side: list[Analysis]) -> int:
    """The usual step of all runs of a side."""
    return int(np.median([analysis.steps.median_ns for analysis in side]))


def _step(
    a: list[Analysis],
    b: list[Analysis],
    usual: tuple[int, int],
    interval: tuple[float, float] | None,
) -> StepChange:
    sides = [[p for x in side for p in step_periods(x)] for side in (a, b)]
    noise = max((max(s) - min(s)) // 2 if len(s) > 1 else 0 for s in sides)
    delta = usual[1] - usual[0]
    ratio = usual[1] / usual[0] if usual[0] else float(usual[1] > 0) or 1.0
    several = max(len(side) for side in sides) > 1
    if abs(delta) <= noise:
        differs: bool | None = False
    elif interval is not None:
        differs = not interval[0] <= 0 <= interval[1]
    else:
        differs = True if several else None
    return StepChange(usual[0], usual[1], ratio, delta, noise, differs, *sides)


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
    """What the mean rank does and waits for, as shares of the span."""
    total = max(analysis.span_ns / _count(analysis), 1)
    return {part: ns / total for part, ns in _mean_parts(analysis).items()}


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


def _with_structure(
    parts: list[Explained], step: StepChange, a: Analysis, b: Analysis
) -> list[Explained]:
    """The parts that were exchanged, the structure by what ranks do more or less of, and what is left.

    Operations that ranks hand each other, as pipelines of other stages do, are no other work: where there are
    as many of all ranks together, what they add and take away belongs to the structure.
    """
    *classes, structure = parts
    moved = [p for p in classes if p.change == WORK and p.what.startswith("compute: ")]
    if len(a.ranks) < 2 or not _as_much_work(a, b):
        moved = []
    classes = [p for p in classes if p not in moved]
    if ordered := structure.delta_ns + sum(p.delta_ns for p in moved):
        classes.append(_structure(ordered, a, b))
    classes.sort(key=lambda e: (-abs(e.delta_ns), e.what))
    missing = step.delta_ns - sum(e.delta_ns for e in classes)
    return [*classes, Explained("everything else", missing)] if missing else classes


def _as_much_work(a: Analysis, b: Analysis) -> bool:
    """Whether both have the same FLOPs, bytes and kernels of computation in all."""
    shares = [_times_as_many(a, b, what) for what in ("ops", "bytes", "count")]
    return all(share and abs(share - 1) < _SAME_WORK for share in shares)


def _structure(delta: int, a: Analysis, b: Analysis) -> Explained:
    """Another order or other dependencies of the same work: less of it side by side, or more waiting."""
    parts = [_mean_parts(x) for x in (a, b)]
    grown = {p: (parts[1][p] - parts[0][p]) * (1 if delta > 0 else -1) for p in PARTS[1:]}
    most = max(grown, key=lambda p: grown[p])
    if most == "exposed communication":
        return Explained(f"communication: {_most_exposed(a, b, delta)}", delta, "overlap")
    if most in ("exposed copy", "other idle"):
        return Explained(f"{most.removeprefix('exposed ')}: other dependencies", delta, "overlap")
    return Explained(f"waiting: {most}", delta, "waiting")


def _mean_parts(analysis: Analysis) -> dict[str, float]:
    """The parts of the mean rank's step."""
    per = max(len(analysis.ranks), 1) * _count(analysis)
    every = [r.breakdown.parts() for r in analysis.ranks]
    return {part: sum(p[part] for p in every) / per for part in PARTS}


def _by_role(parts: Sequence[Explained], a: Analysis, b: Analysis) -> list[Explained]:
    """The parts with collectives called by what their group is for; those of one role count as one."""
    roles = {
        f"{c.type} {c.group}": f"{c.type} {c.role}"
        for x in (a, b)
        for c in x.collectives
        if c.role != role_of(c.group)
    }
    joined: dict[tuple[str, str], int] = {}
    for part in parts:
        kind, colon, name = part.what.partition(": ")
        what = f"{kind}{colon}{roles.get(name, name)}"
        joined[what, part.change] = joined.get((what, part.change), 0) + part.delta_ns
    return [Explained(what, delta, change) for (what, change), delta in joined.items()]


def _most_exposed(a: Analysis, b: Analysis, delta: int) -> str:
    """The type and role of the collectives whose exposed time changed most."""
    change = Counter[str]()
    for analysis, sign in ((a, -1), (b, 1)):
        for c in analysis.collectives:
            exposed = c.total_exposed_ns / _count(analysis)
            change[f"{c.type} {c.role}"] += round(sign * exposed)
    if not change:
        return "messages"
    return max(change, key=lambda name: change[name] * (1 if delta > 0 else -1))


_MOST_OF_IT = 0.9
"""The share of a cause from which its largest class is named alone: the rest is no more than rounding."""


def _causes(
    explained: Sequence[Explained], a: Analysis, b: Analysis, edited: str
) -> list[ChangeCause]:
    """The parts summed by what changed and by kind of work, largest first.

    The largest also says what their workloads differ in, if that is known.
    """
    groups: dict[tuple[str, str], list[Explained]] = {}
    for part in explained:
        kind = WORK if part.change == WORK else part.what.partition(":")[0]
        groups.setdefault((part.change, kind), []).append(part)
    causes = [
        ChangeCause(change, _cause_text(change, kind, parts, a, b), sum(p.delta_ns for p in parts))
        for (change, kind), parts in groups.items()
    ]
    causes.sort(key=lambda c: (-abs(c.delta_ns), c.what))
    if edited and causes:
        causes[0] = msgspec.structs.replace(causes[0], what=f"{causes[0].what}; {edited}")
    return causes


def _cause_text(
    change: str, kind: str, parts: Sequence[Explained], a: Analysis, b: Analysis
) -> str:
    whole = sum(p.delta_ns for p in parts)
    sign = -1 if whole >= 0 else 1
    most, *others = sorted(parts, key=lambda p: (p.what.endswith(": others"), p.delta_ns * sign))
    text = most.what
    if others and abs(most.delta_ns) < _MOST_OF_IT * abs(whole):
        second = others[0].what.partition(": ")[2] if len(others) == 1 else ""
        text = f"{text} and {second or f'{len(others)} more'}"
    if change == WORK:
        return f"{kind}: {_more_work(a, b)}{text}"
    if not change and kind == "compute" and (flops := _times_as_many(a, b, "ops")):
        return text if abs(flops - 1) < _SAME_WORK else f"{text}; {flops:.2f} × the FLOPs a rank"
    if change != DURATIONS or kind == "host":
        return text
    return f"{text}{_new_culprit(a, b) or (_odd_ranks(a, b) if kind == 'compute' else '')}"


_ODD = 0.05
"""The least share by which the computation of a rank has to change more or less than that of most."""


def _odd_ranks(a: Analysis, b: Analysis) -> str:
    """The ranks whose computation changed otherwise than that of most."""
    spent = [
        {r.rank: r.breakdown.compute_ns / _count(x) for r in x.ranks if r.breakdown.compute_ns}
        for x in (a, b)
    ]
    times = {rank: spent[1][rank] / spent[0][rank] for rank in spent[0] if rank in spent[1]}
    if len(times) < 2:
        return ""
    usual = float(np.median(list(times.values())))
    odd = {rank: t for rank, t in times.items() if abs(t / usual - 1) >= _ODD}
    if not odd or 2 * len(odd) > len(times):
        return ""
    most = max(odd, key=lambda rank: abs(math.log(odd[rank] / usual)))
    others = f" and {len(odd) - 1} more" if len(odd) > 1 else ""
    return f"; rank {most}{others} computes {odd[most]:.2f} times as long as before, most ranks {usual:.2f}"


_SAME_WORK = 0.005
"""FLOPs, bytes and kernels that differ by a smaller share are the same to three digits."""


def _more_work(a: Analysis, b: Analysis) -> str:
    """How many times A's FLOPs B has, where both say theirs; where they are the same, what is not."""
    flops = _times_as_many(a, b, "ops")
    if not flops:
        return ""
    if abs(flops - 1) >= _SAME_WORK:
        return f"{flops:.2f} × the FLOPs; "
    for what, name in (("bytes", "bytes in memory"), ("count", "kernels")):
        times = _times_as_many(a, b, what)
        if times and abs(times - 1) >= _SAME_WORK:
            return f"the same FLOPs, {times:.2f} × the {name}; "
    return "the same FLOPs; "


def _times_as_many(a: Analysis, b: Analysis, what: str) -> float:
    """How many times as many FLOPs, bytes or kernels of computation B has as A; 0 where one says none."""
    amounts = [
        sum(getattr(s, what) for s in x.operators.kernels if s.kind == "compute")
        / (_count(x) * max(len(x.ranks), 1))
        for x in (a, b)
    ]
    return amounts[1] / amounts[0] if all(amounts) else 0.0


def _new_culprit(a: Analysis, b: Analysis) -> str:
    """The first culprit of B that A does not have."""
    known = {(c.kind, c.rank, c.link) for c in a.culprits}
    new = [c.detail for c in b.culprits if (c.kind, c.rank, c.link) not in known]
    return f"; {new[0]}" if new else ""


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
            named = c.role == role_of(c.group)  # else after the plan: `tp 3`
            key = (f"{c.type} {c.group or '(all)' if named else f'{c.role} {c.group}'}", "comm")
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
            spread_a, spread_b = (getattr(x.serving, f"{name}_ms") for x in (a, b))
            if spread_a and spread_b:  # no request of a run may have had a second token
                out[name] = (spread_a.mean * 1e6, spread_b.mean * 1e6)
    return out


def _per_rank_and_step(analysis: Analysis, spent_ns: Iterable[float]) -> float:
    return sum(spent_ns) / max(len(analysis.ranks), 1) / _count(analysis)


def _gap(a: Analysis, b: Analysis, delta_ns: int, runs: tuple[Run, Run] | None) -> list[GapPart]:
    return gap_of(a, b, delta_ns, runs[1] if runs else None) if _is_gap(a, b) else []


def _is_gap(a: Analysis, b: Analysis) -> bool:
    """Whether A was predicted and B recorded."""
    predicted = a.footprint is not None and a.footprint.rung not in ("", RECORDED)
    return predicted and b.recording is not None and b.footprint is None


def _interval(a: Analysis, b: Analysis, usual: tuple[int, int]) -> tuple[float, float] | None:
    """The interval of the difference of the usual steps of two predicted runs."""
    runs = [interval_in(x.footprint) if x.footprint else None for x in (a, b)]
    if runs[0] is None or runs[1] is None:
        return None
    before, after = (
        run.scaled(step / max(analysis.span_ns, 1))
        for run, step, analysis in zip(runs, usual, (a, b), strict=True)
        if run is not None
    )
    return difference(before, after, usual[1] - usual[0])


def _incomparable(a: Analysis, b: Analysis) -> str:
    """Why the difference of two runs says nothing; empty where it does."""
    hung = [side for side, x in (("A", a), ("B", b)) if x.endless]
    if hung:
        verb = "do" if len(hung) > 1 else "does"
        return f"{' and '.join(hung)} {verb} not end: what is compared is how far it came"
    subjects = [_subject(x) for x in (a, b)]
    if subjects[0] != subjects[1]:
        return "A is {}, B is {}: they have nothing to compare".format(*subjects)
    steps = [_step_times(x) for x in (a, b)]
    if len({family for family, _ in steps if family}) > 1:
        return _STEP_TIMES.format(*(text for _, text in steps))
    rungs = [x.footprint.rung if x.footprint else "" for x in (a, b)]
    return _RUNGS.format(*rungs) if rungs_differ(rungs) else ""


def _step_times(a: Analysis) -> tuple[str, str]:
    """Where the step times of a served stream come from: the kind of source, and all that is said of it."""
    said = next((n.removeprefix(STEP_TIMES) for n in a.notes if n.startswith(STEP_TIMES)), "")
    found = re.search(r"fitted to published runs|measured layers|operators by \S+", said)
    return (found[0] if found else said), said


def _subject(a: Analysis) -> str:
    """What a run is of."""
    if a.campaign:
        return "a campaign's history"
    return "a served stream" if a.serving is not None else "a program's run"


def _warning(a: Analysis, b: Analysis) -> str:
    warnings = [f"{side}: {x.warning}" for side, x in (("A", a), ("B", b)) if x.warning]
    return "; ".join([*warnings, *filter(None, [_incomparable(a, b)])])


_STEP_TIMES = (
    "step times are those of {} in A and of {} in B, so that their difference says little about the two "
    "machines; serve both with one --compute"
)
_RUNGS = (
    "computation is costed by {} in A and by {} in B, so that their difference says nothing about the two "
    "machines; simulate both with one --compute"
)


def _notes(a: Analysis, b: Analysis) -> list[str]:
    both = [note for note in a.notes if note in b.notes]
    notes = [f"A and B: {note}" for note in both]
    for side, x in (("A", a), ("B", b)):
        notes += [f"{side}: {note}" for note in x.notes if note not in both]
    if len(a.ranks) != len(b.ranks):
        notes.append(
            f"A has {counted(len(a.ranks), 'rank')} and B {len(b.ranks)}; sums are per rank"
        )
    if a.steps.found == "none" or b.steps.found == "none":
        notes.append("no steps were found: the whole run counts as one")
    return notes


class Rule(Result, msgspec.Struct, frozen=True):
    """`step>3%`: fail when B exceeds A by more than 3 %; `idle>2ms` by more than 2 ms."""

    metric: str
    above: bool
    limit: float
    unit: str

    def doubt(self, result: Comparison) -> str:
        """Why nobody knows whether B breaks the rule; empty where it does, or does not."""
        why = self._over(result)
        if not why or not self._could_be_none(result):
            return ""
        reason = "is within the noise" if result.step.within_noise else "could be zero"
        return f"{why}, but the change {reason}"

    def fails(self, result: Comparison) -> str:
        """Why B breaks the rule; empty if it does not. A step's change that could be none breaks no rule."""
        return "" if self._could_be_none(result) else self._over(result)

    def _could_be_none(self, result: Comparison) -> bool:
        """Of the step: its change is within the noise, or the interval of predicted ones includes zero."""
        return self.metric == "step" and result.step.significant is False

    def _over(self, result: Comparison) -> str:
        """How B exceeds the limit; empty if it does not."""
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
        if not over:
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


def doubts(result: Comparison, rules: Iterable[str]) -> list[str]:
    """For each rule that B would break by a change that could be none, a sentence that says so."""
    return [why for text in rules if (why := parse_rule(text).doubt(result))]
