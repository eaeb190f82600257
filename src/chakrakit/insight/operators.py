"""What the time is spent on: operators, kernels, modules, and operators by the shapes they work on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from chakrakit.arrays import I64, Mask
from chakrakit.insight.rank import Kind, RankView, Table, ms, percent, rank_views, short, us
from chakrakit.results import Result
from chakrakit.trace.placement import outlives_parent
from chakrakit.trace.sets import Run

Totals = dict[tuple[str, ...], list[int]]
_SECTIONS = ("operators", "kernels", "modules", "phases", "shapes")


class Spent(Result, msgspec.Struct):
    """All nodes of one name: how many, their time, their work. Host time is the operator's own."""

    name: str
    kind: str
    count: int
    time_ns: int
    mean_ns: float
    ops: int
    bytes: int
    host_ns: int = 0
    shapes: str = ""


class Operators(Result, msgspec.Struct):
    """By operator, kernel, module, phase, and (operator, shapes); longest first, over all ranks."""

    total_ns: int
    operators: list[Spent]
    kernels: list[Spent]
    modules: list[Spent]
    phases: list[Spent]
    shapes: list[Spent]

    def table(self) -> Table:
        """Operators by device time."""
        return self._table("operators by device time", self.operators)

    def kernel_table(self) -> Table:
        """Kernels by time."""
        return self._table("kernels", self.kernels)

    def module_table(self) -> Table:
        """Modules by device time."""
        return self._table("modules by device time", self.modules)

    def shape_table(self) -> Table:
        """Every operator with every shapes it was called with."""
        rows = [
            (short(s.name), s.shapes[:70], s.count, ms(s.time_ns), us(s.mean_ns), s.ops, s.bytes)
            for s in self.shapes
        ]
        head = ("operator", "shapes", "count", "ms", "mean µs", "FLOPs", "bytes")
        return Table.of("operators by shapes", head, rows)

    def _table(self, title: str, spent: Iterable[Spent]) -> Table:
        rows = [
            (
                short(s.name),
                s.kind,
                s.count,
                ms(s.time_ns),
                percent(s.time_ns, self.total_ns),
                us(s.mean_ns),
                ms(s.host_ns),
            )
            for s in spent
        ]
        return Table.of(title, ("name", "kind", "count", "ms", "%", "mean µs", "host ms"), rows)


@dataclass
class RankOperators:
    """Sums of one rank: key → [count, ns, ops, bytes, host ns]."""

    total_ns: int
    operators: Totals = field(default_factory=dict)
    kernels: Totals = field(default_factory=dict)
    modules: Totals = field(default_factory=dict)
    phases: Totals = field(default_factory=dict)
    shapes: Totals = field(default_factory=dict)


_KINDS = [kind.name.lower() for kind in Kind]


class _Work(NamedTuple):
    """Rows that work on a device, and what is added up of them."""

    rows: I64
    kind: I64
    facts: list[I64]
    """Time, operations and bytes."""


def operators_of(view: RankView) -> RankOperators:
    """The part of one rank."""
    rows = np.flatnonzero(view.works_on_device)
    sizes = [view.trace.column(n, 0)[rows].astype(np.int64) for n in ("num_ops", "tensor_size")]
    work = _Work(rows, view.kind[rows].astype(np.int64), [_spent(view, rows), *sizes])
    codes, texts = view.names
    operator, called, texts = _operators(view, rows)
    out = RankOperators(int(work.facts[0].sum()))
    whole = np.ones(len(rows), np.bool_)
    _sum(out.kernels, work, whole, [(codes[rows], texts)])
    _sum(out.operators, work, whole, [(called, texts)])
    for name, totals in (("module", out.modules), ("phase", out.phases)):
        column, values = view.texts(name)
        _sum(totals, work, column[rows] >= 0, [(column[rows], values)])
    shape, values = view.texts("inputs_shapes")
    _sum(out.shapes, work, shape[operator] >= 0, [(called, texts), (shape[operator], values)])
    _add_host(out, view)
    return out


def _operators(view: RankView, work: I64) -> tuple[I64, I64, list[str]]:
    """Of each row, the row that says what shapes it works on, its operator's name, and all names.

    A kernel of a graph was launched by no operator; its capture says in the node which one it is of.
    """
    codes, texts = view.names
    operator = view.operator[work].astype(np.int64)
    called = codes[operator].astype(np.int64)
    said, names = view.texts("operator")
    graph = said[work] >= 0
    operator[graph] = work[graph]
    called[graph] = said[work[graph]] + len(texts)
    return operator, called, [*texts, *names]


def _spent(view: RankView, rows: I64) -> I64:
    return np.where(view.on_host[rows] & ~view.is_comm[rows], view.own[rows], view.duration[rows])


def _sum(
    totals: Totals, work: _Work, chosen: Mask, keys: list[tuple[NDArray[np.integer], list[str]]]
) -> None:
    """Adds the chosen rows up by kind and the given texts."""
    at = np.flatnonzero(chosen)
    code = work.kind[at]
    for column, texts in keys:
        code = code * (len(texts) + 1) + column[at]
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    counts = np.bincount(group, minlength=len(first))
    sums = [counts, *(_add(group, fact[at], len(first)) for fact in work.facts)]
    at = at[first]
    told = zip(*([texts[c] for c in column[at].tolist()] for column, texts in keys), strict=True)
    facts = zip(*(s.tolist() for s in sums), strict=True)
    for kind, said, found in zip(work.kind[at].tolist(), told, facts, strict=True):
        old = totals.setdefault((_KINDS[kind], *said), [0, 0, 0, 0, 0])
        for j, value in enumerate(found):
            old[j] += value


def _add(group: I64, values: I64, size: int) -> I64:
    """Exact sums by group: floats would lose the last digits of large counts."""
    out = np.zeros(size, np.int64)
    np.add.at(out, group, values)
    return out


def _add_host(out: RankOperators, view: RankView) -> None:
    """The host's own time of operators, where the device does the work."""
    if not view.has_device:
        return
    rows = np.flatnonzero(view.on_host & view.ran & ~view.is_mark & ~view.is_comm)
    codes, texts = view.names
    holder = view.operator[rows]
    size = len(texts)
    host = np.bincount(codes[holder], _own_host(view, rows).astype(np.float64), size)
    for name in np.flatnonzero(host).tolist():
        for kind in ("compute", "comm", "copy"):
            if (kind, texts[name]) in out.operators:
                out.operators[kind, texts[name]][4] += int(host[name])
                break


def _own_host(view: RankView, rows: I64) -> I64:
    """Self time: a row without what runs inside it; what ran on without it does not count."""
    inside = np.zeros(len(view), np.int64)
    nested = np.flatnonzero((view.parent >= 0) & ~outlives_parent(view.trace))
    np.add.at(inside, view.parent[nested], view.duration[nested])
    alone = np.maximum(np.minimum(view.duration - inside, view.own), 0)
    return np.asarray(alone[rows], np.int64)


def join_operators(parts: Iterable[RankOperators]) -> Operators:
    """All ranks together."""
    total = RankOperators(0)
    for part in parts:
        add_operators(total, part)
    return listed_operators(total)


def add_operators(total: RankOperators, part: RankOperators, ranks: int = 1) -> None:
    """The sums of so many more ranks that are alike."""
    total.total_ns += part.total_ns * ranks
    for name in _SECTIONS:
        _merge(getattr(total, name), getattr(part, name), ranks)


def listed_operators(total: RankOperators) -> Operators:
    """Sums as lists, longest first."""
    return Operators(total.total_ns, *(_list(getattr(total, n)) for n in _SECTIONS))


def _merge(into: Totals, more: Totals, times: int) -> None:
    for key, values in more.items():
        old = into.setdefault(key, [0, 0, 0, 0, 0])
        for i, value in enumerate(values):
            old[i] += value * times


def _list(totals: Totals) -> list[Spent]:
    order = sorted(totals.items(), key=lambda item: (-item[1][1], item[0]))
    return [
        Spent(
            key[1],
            key[0],
            v[0],
            v[1],
            v[1] / v[0],
            v[2],
            v[3],
            v[4],
            key[2] if len(key) > 2 else "",
        )
        for key, v in order
    ]


def operators(run: Run) -> Operators:
    """Time by operator, kernel, module, phase and shapes."""
    return join_operators([operators_of(view) for view in rank_views(run)])


# How well the device is used: operations per second against bytes moved, and the share of its peak.


class Point(Result, msgspec.Struct):
    """An operator on the roofline. `intensity` is operations per byte; `bound` what its peak is set by."""

    name: str
    shapes: str
    time_ns: int
    ops: int
    bytes: int
    intensity: float
    tflops: float
    gbps: float
    bound: str
    of_roof: float


class Roofline(Result, msgspec.Struct):
    """Points by time, and the run as a whole. MFU needs the device's peak; 0 where it is not given."""

    ops: int
    tflops_per_rank: float
    mfu: float
    peak_tflops: float
    peak_gbps: float
    points: list[Point]

    def table(self) -> Table:
        """One row per operator and shapes."""
        rows = [
            (
                p.name,
                p.shapes[:48],
                ms(p.time_ns),
                round(p.tflops, 2),
                round(p.gbps, 1),
                round(p.intensity, 2),
                p.bound,
                round(100 * p.of_roof, 1),
            )
            for p in self.points
        ]
        mfu = f", MFU {100 * self.mfu:.1f} %" if self.peak_tflops else ""
        head = ("operator", "shapes", "ms", "TFLOP/s", "GB/s", "FLOP/B", "bound by", "% of roof")
        return Table.of(f"roofline: {self.tflops_per_rank:.2f} TFLOP/s per rank{mfu}", head, rows)


def roofline_of(
    found: Operators, span: int, ranks: int, peak_tflops: float = 0.0, peak_gbps: float = 0.0
) -> Roofline:
    """From sums over operators and shapes; peaks in TFLOP/s and GB/s of one device."""
    source = found.shapes if any(s.ops or s.bytes for s in found.shapes) else found.operators
    points = [
        _point(s, peak_tflops, peak_gbps)
        for s in source
        if s.kind == "compute" and s.time_ns and (s.ops or s.bytes)
    ]
    ops = sum(s.ops for s in found.kernels)
    rate = ops / span / 1e3 / ranks if span and ranks else 0.0
    return Roofline(
        ops, rate, rate / peak_tflops if peak_tflops else 0.0, peak_tflops, peak_gbps, points
    )


def _point(spent: Spent, peak_tflops: float, peak_gbps: float) -> Point:
    tflops, gbps = spent.ops / spent.time_ns / 1e3, spent.bytes / spent.time_ns
    intensity = spent.ops / spent.bytes if spent.bytes else 0.0
    bound, share = "", 0.0
    if peak_tflops and peak_gbps:
        compute, memory = tflops / peak_tflops, gbps / peak_gbps
        bound, share = ("compute", compute) if compute >= memory else ("memory", memory)
    return Point(
        spent.name,
        spent.shapes,
        spent.time_ns,
        spent.ops,
        spent.bytes,
        intensity,
        tflops,
        gbps,
        bound,
        share,
    )


def roofline(run: Run, peak_tflops: float = 0.0, peak_gbps: float = 0.0) -> Roofline:
    """Roofline points and MFU of a run."""
    low, high = run.span_ns
    return roofline_of(operators(run), high - low, len(run), peak_tflops, peak_gbps)
