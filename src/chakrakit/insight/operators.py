"""What the time is spent on, by operator, kernel, module and shapes; and the roofline of the operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from chakrakit.arrays import I64, Mask
from chakrakit.insight.rank import RankView, RowKind, Table, ms, percent, rank_views, short, us
from chakrakit.machines.device import rate_type
from chakrakit.operators import (
    computed_again,
    figure_for,
    find_type,
    operation_of,
    rate_name,
    read_call,
)
from chakrakit.results import Result, utilization_text
from chakrakit.trace.model import RECOMPUTED
from chakrakit.trace.placement import outlives_parent
from chakrakit.trace.sets import Run

Totals = dict[tuple[str, ...], list[int]]
_SECTIONS = ("operators", "kernels", "modules", "phases", "shapes")


class Spent(Result, msgspec.Struct, kw_only=True):
    """All nodes of one name: their number, time and work. `host_ns` is the operator's own host time."""

    name: str
    kind: str
    count: int
    time_ns: int
    mean_ns: float
    ops: int
    bytes: int
    host_ns: int = 0
    shapes: str = ""
    dtype: str = ""
    """The element type that it computes in, of one name and shapes; empty where that is not recorded."""


class Operators(Result, msgspec.Struct):
    """Time over all ranks by operator, kernel, module, phase and (operator, shapes); longest first."""

    total_ns: int
    operators: list[Spent]
    kernels: list[Spent]
    modules: list[Spent]
    phases: list[Spent]
    shapes: list[Spent]

    def table(self) -> Table:
        """Operators by device time, or by their own where they are all that runs, as on a CPU."""
        alone = self.kernels == self.operators
        return self._table(f"operators by {'' if alone else 'device '}time", self.operators)

    def kernel_table(self) -> Table:
        """Kernels by time; none where operators are all that runs, as on a CPU."""
        own = [] if self.kernels == self.operators else self.kernels
        return self._table("kernels", own)

    def module_table(self) -> Table:
        """Modules by device time."""
        return self._table("modules by device time", self.modules)

    def shape_table(self) -> Table:
        """One row for each operator and shapes that it was called with."""
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
    """Sums of one rank; each maps a key to [count, ns, ops, bytes, host ns]."""

    total_ns: int
    operators: Totals = field(default_factory=dict)
    kernels: Totals = field(default_factory=dict)
    modules: Totals = field(default_factory=dict)
    phases: Totals = field(default_factory=dict)
    shapes: Totals = field(default_factory=dict)


_KINDS = [kind.name.lower() for kind in RowKind]


class _Work(NamedTuple):
    """The rows that work on a device, and the facts that are summed over them."""

    rows: I64
    kind: I64
    facts: list[I64]
    """Time, operations and bytes."""


def operators_of(view: RankView) -> RankOperators:
    """The sums of one rank."""
    rows = np.flatnonzero(view.works_on_device)
    sizes = [view.trace.column(n, 0)[rows].astype(np.int64) for n in ("num_ops", "tensor_size")]
    work = _Work(rows, view.kind[rows].astype(np.int64), [spent_on(view, rows), *sizes])
    codes, texts = view.names
    operator, called, texts = view.called(rows)
    out = RankOperators(int(work.facts[0].sum()))
    whole = np.ones(len(rows), np.bool_)
    _sum(out.kernels, work, whole, [(codes[rows], texts)])
    _sum(out.operators, work, whole, [(called, texts)])
    for name, totals in (("module", out.modules), ("phase", out.phases)):
        column, values = view.texts(name)
        _sum(totals, work, column[rows] >= 0, [(column[rows], values)])
    shape, values = view.texts("inputs_shapes")
    by_types: Totals = {}
    keys: list[tuple[NDArray[np.integer], list[str]]] = [(called, texts)]
    keys += [(shape[operator], values), _types(view, rows, operator)]
    _sum(by_types, work, shape[operator] >= 0, keys)
    for (kind, name, shapes, types), amounts in by_types.items():
        _merge(
            out.shapes,
            {(kind, name, shapes, _computed_in(name, shapes, types, view.has_device)): amounts},
            1,
        )
    _add_host(out, view)
    return out


def _types(view: RankView, work: I64, operator: I64) -> tuple[I64, list[str]]:
    """For each row what says its element type: its own `dtype`, else the types of its operator's inputs."""
    own, names = view.texts("dtype")
    recorded, texts = view.texts("inputs_types")
    known = [*names, *texts, ""]
    code = np.where(recorded[operator] >= 0, recorded[operator] + len(names), len(known) - 1)
    return np.where(own[work] >= 0, own[work], code).astype(np.int64), known


@lru_cache(1 << 14)
def _computed_in(name: str, shapes: str, types: str, on_device: bool) -> str:
    """The element type that a call computes in, by the name of its rate; empty where nothing says it.

    Classes of profiles name a type for products alone: elsewhere it is the tensors'. No host rounds to TF32.
    """
    if not types.startswith("["):
        return rate_name(types)
    call = read_call(name, shapes, types)
    operation = operation_of(call)
    if operation is None:
        return ""
    rate = rate_type(operation)
    if rate == "tf32" and not on_device:
        return "fp32"
    elements = [e for t in call.tensors if (e := find_type(t.dtype)) is not None]
    real = [e.rate for e in elements if e.kind == "float"] or [e.rate for e in elements]
    return real[0] if real and rate == "bf16" else rate


def spent_on(view: RankView, rows: I64) -> I64:
    """How long rows work: those of a device from start to end, those of the host without their callees."""
    computes = view.on_host[rows] & ~view.is_comm[rows]
    if not computes.any():
        return view.duration[rows]
    return np.where(computes, _own_host(view, rows), view.duration[rows])


def _sum(
    totals: Totals, work: _Work, counted: Mask, keys: list[tuple[NDArray[np.integer], list[str]]]
) -> None:
    """Adds the counted rows to `totals`, by kind and by the texts of `keys`."""
    at = np.flatnonzero(counted)
    code = work.kind[at]
    for column, texts in keys:
        code = code * (len(texts) + 1) + column[at]
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    counts = np.bincount(group, minlength=len(first))
    sums = [counts, *(_add(group, fact[at], len(first)) for fact in work.facts)]
    at = at[first]
    key_texts = zip(
        *([texts[c] for c in column[at].tolist()] for column, texts in keys), strict=True
    )
    facts = zip(*(s.tolist() for s in sums), strict=True)
    for kind, key, amounts in zip(work.kind[at].tolist(), key_texts, facts, strict=True):
        old = totals.setdefault((_KINDS[kind], *key), [0, 0, 0, 0, 0])
        for j, value in enumerate(amounts):
            old[j] += value


def _add(group: I64, values: I64, size: int) -> I64:
    """The sum of each group in whole numbers: floats would lose the last digits of large counts."""
    out = np.zeros(size, np.int64)
    np.add.at(out, group, values)
    return out


def _add_host(out: RankOperators, view: RankView) -> None:
    """Adds the host's own time to operators, where a device does the work."""
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
    """The time of each host row without the rows inside it; rows that outlive it are not subtracted."""
    inside = np.zeros(len(view), np.int64)
    nested = np.flatnonzero((view.parent >= 0) & ~outlives_parent(view.trace))
    np.add.at(inside, view.parent[nested], view.duration[nested])
    alone = np.maximum(np.minimum(view.duration - inside, view.own), 0)
    return np.asarray(alone[rows], np.int64)


def join_operators(parts: Iterable[RankOperators]) -> Operators:
    """The sums of all ranks as lists."""
    total = RankOperators(0)
    for part in parts:
        add_operators(total, part)
    return listed_operators(total)


def add_operators(total: RankOperators, part: RankOperators, ranks: int = 1) -> None:
    """Adds the sums of `ranks` ranks that are alike to `total`."""
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
            name=key[1],
            kind=key[0],
            count=v[0],
            time_ns=v[1],
            mean_ns=v[1] / v[0],
            ops=v[2],
            bytes=v[3],
            host_ns=v[4],
            shapes=key[2] if len(key) > 2 else "",
            dtype=key[3] if len(key) > 3 else "",
        )
        for key, v in order
    ]


def operators(run: Run) -> Operators:
    """Time by operator, kernel, module, phase and shapes."""
    return join_operators([operators_of(view) for view in rank_views(run)])


# --- roofline: operations per second against bytes moved, and the share of the device's peak --------


class Point(Result, msgspec.Struct, kw_only=True):
    """An operator on the roofline. `intensity` is operations per byte; `bound` is `compute` or `memory`.

    `dtype` is the element type whose peak is its roof; empty where that is not known.
    """

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
    dtype: str = ""


class RunRoofline(Result, msgspec.Struct):
    """The run as a whole, and its operators by time.

    `mfu` counts the FLOPs of the model, without recomputation, and `hfu` all of them, both as a share of
    `peak_tflops`, the device's peak in bf16 or the one that was asked for, over the whole time; they are 0
    where the peak is not known. `peaks` has the peaks by the element types in which operators compute; an
    operator's roof is that of its own type.
    """

    ops: int
    tflops_per_rank: float
    mfu: float
    hfu: float
    peak_tflops: float
    peak_gbps: float
    points: list[Point]
    peaks: dict[str, float] = {}

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
                p.dtype,
                p.bound,
                round(100 * p.of_roof, 1) if p.bound else "",
            )
            for p in self.points
        ]
        mfu = f", {utilization_text(self.mfu, self.hfu)}" if self.peak_tflops else ""
        roof = f"; the roof is {self.roof_text}" if self.roof_text else ""
        head = (
            *("operator", "shapes", "ms of all ranks", "TFLOP/s", "GB/s", "FLOP/B"),
            *("computes in", "bound by", "% of roof"),
        )
        title = f"roofline: {self.tflops_per_rank:.2f} TFLOP/s per rank{mfu}{roof}"
        return Table.of(title, head, rows)

    @property
    def roof_text(self) -> str:
        """The roofs and what each is of: `989 TFLOP/s in bf16, 67 in fp32 and 3,350 GB/s`; empty without."""
        if not (self.peak_tflops and self.peak_gbps):
            return ""
        if not self.peaks:
            return f"{self.peak_tflops:,.0f} TFLOP/s in every type and {self.peak_gbps:,.0f} GB/s"
        first, *others = sorted(self.peaks.items(), key=lambda item: -item[1])
        rates = [f"{first[1]:,.0f} TFLOP/s in {first[0]}", *(f"{v:,.0f} in {k}" for k, v in others)]
        return f"{', '.join(rates)} and {self.peak_gbps:,.0f} GB/s"


def roofline_of(
    operators: Operators,
    span: int,
    ranks: int,
    peak_tflops: float = 0.0,
    peak_gbps: float = 0.0,
    peaks: Mapping[str, float] | None = None,
) -> RunRoofline:
    """The roofline from the sums of all ranks; peaks are those of one device in TFLOP/s and GB/s.

    `peaks` are by element type; without them `peak_tflops` is the roof of every operator.
    """
    source = (
        operators.shapes if any(s.ops or s.bytes for s in operators.shapes) else operators.operators
    )
    roofs = _Roofs(peak_tflops, peak_gbps, peaks or {})
    points = [
        roofs.point(s) for s in source if s.kind == "compute" and s.time_ns and (s.ops or s.bytes)
    ]
    ops = sum(s.ops for s in operators.kernels)
    rate = ops / span / 1e3 / ranks if span and ranks else 0.0
    hfu = rate / peak_tflops if peak_tflops else 0.0
    phase = sum(s.ops for s in operators.phases if s.name == RECOMPUTED)
    again = phase + sum(s.ops * computed_again(s.name) for s in operators.operators)
    mfu = hfu * (1 - again / ops) if ops else 0.0
    stated = [p.dtype for p in points if p.dtype and figure_for(peaks or {}, p.dtype) is not None]
    used = {dtype: roofs.peak(dtype) for dtype in stated}
    return RunRoofline(
        ops=ops,
        tflops_per_rank=rate,
        mfu=mfu,
        hfu=hfu,
        peak_tflops=peak_tflops,
        peak_gbps=peak_gbps,
        points=points,
        peaks=used,
    )


class _Roofs(NamedTuple):
    """What bounds operators: the peak of any type, the memory's bandwidth, and peaks by type."""

    peak_tflops: float
    peak_gbps: float
    peaks: Mapping[str, float]

    def peak(self, dtype: str) -> float:
        """The peak of an element type; that of all where a device states none for it."""
        return figure_for(self.peaks, dtype) or self.peak_tflops

    def point(self, spent: Spent) -> Point:
        """An operator under the roof of its own type."""
        tflops, gbps = spent.ops / spent.time_ns / 1e3, spent.bytes / spent.time_ns
        intensity = spent.ops / spent.bytes if spent.bytes else 0.0
        dtype, bound, share = spent.dtype, "", 0.0
        if dtype == "fp32" and tflops > self.peak(dtype) and "tf32" in self.peaks:
            dtype = "tf32"  # recordings do not say whether products may round: faster ones did
        if self.peak_tflops and self.peak_gbps:
            compute, memory = tflops / self.peak(dtype), gbps / self.peak_gbps
            bound, share = ("compute", compute) if compute >= memory else ("memory", memory)
        return Point(
            name=spent.name,
            shapes=spent.shapes,
            time_ns=spent.time_ns,
            ops=spent.ops,
            bytes=spent.bytes,
            intensity=intensity,
            tflops=tflops,
            gbps=gbps,
            bound=bound,
            of_roof=share,
            dtype=dtype,
        )


def roofline(run: Run, peak_tflops: float = 0.0, peak_gbps: float = 0.0) -> RunRoofline:
    """The roofline of a run; peaks are those of one device in TFLOP/s and GB/s."""
    low, high = run.span_ns
    return roofline_of(operators(run), high - low, len(run), peak_tflops, peak_gbps)
