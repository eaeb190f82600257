"""The gap between a predicted run and a recorded one: in parts that sum, each with what would close it.

Both runs are split into what the mean rank does and waits for in a step. The difference of computation is
split further, by the operators whose kernels take longer or shorter than predicted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import numpy as np

from chakrakit.insight.analysis import Analysis, analyze
from chakrakit.insight.breakdown import PARTS
from chakrakit.insight.operators import spent_on
from chakrakit.insight.rank import RowKind, Table, as_run, ms, percent, rank_views, short
from chakrakit.operators import Work, operator_of
from chakrakit.passes.base import narrow
from chakrakit.results import Result
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import Run
from chakrakit.trace.timing import Intervals

_NAMED = 8
"""Operators that are named; the others are summed."""
_CLOSED_BY = {
    "compute": "the profile's rows of this operator (chakra calibrate)",
    "exposed communication": "the constants of the communication library (chakra calibrate)",
    "late ranks": "unlike ranks: stragglers or jitter of the simulation",
    "bubble": "the pipeline's schedule and its messages",
    "host": "the host's times of launches and operators (the pass launched, --host)",
    "data": "reads of input data, which a prediction has only as storage nodes",
    "saving": "writes to stores, which a prediction has only as storage nodes",
    "exposed copy": "the bandwidth between host and device",
    "other idle": "gaps between kernels (kernel_overhead of the device)",
}
_COPIES = "copies"
"""What both runs call operators that copy, and copies from one place of a device's memory to another."""
_INSIDE = re.compile("Memcpy DtoD")
_STREAMS = "streams that a prediction does not have"
_TITLES = {
    "compute": "kernels",
    "exposed communication": "collectives",
    "late ranks": "waiting for ranks",
    "host": "host dispatch",
    "exposed copy": "memory copies",
    "other idle": "gaps",
}


class GapPart(Result, msgspec.Struct, frozen=True):
    """A part of measured − predicted, positive where the measured step takes longer."""

    part: str
    what: str
    predicted_ns: float
    measured_ns: float
    delta_ns: int
    closes: str
    """The constant that would close it."""


def gap_table(parts: list[GapPart], delta_ns: int) -> Table:
    """One row per part, largest first."""
    rows = [
        (
            p.part,
            p.what,
            ms(p.predicted_ns),
            ms(p.measured_ns),
            ms(p.delta_ns),
            percent(p.delta_ns, delta_ns),
            p.closes,
        )
        for p in parts
    ]
    head = ("part", "what", "predicted ms", "measured ms", "Δ ms", "% of it", "closed by")
    return Table.of(f"measured − predicted: {ms(delta_ns):+,} ms", head, rows)


def gap_of(
    predicted: Analysis, measured: Analysis, delta_ns: int, recording: Run | None = None
) -> list[GapPart]:
    """The parts of a step's gap, largest first; they sum to `delta_ns` exactly.

    With the recording itself, only what belongs to its steps counts, and kernels have the names by which
    the prediction calls their operators.
    """
    spent_a, a = _by_operator(predicted), _parts(predicted)
    if recording is None:
        spent_b, b = _by_operator(measured), _parts(measured)
    else:
        heads, recording = _heads(recording), _in_steps(recording)
        measured = analyze(recording)
        per = max(len(measured.ranks), 1) * measured.steps.count
        spent_b = {n: ns / per for n, ns in _recorded_by_operator(recording, set(spent_a)).items()}
        b = _parts(measured)
        for name, ns in heads.items():
            b[name] += ns / per
        # Copies within the device are work of it that a prediction times with the kernels that copy.
        inside = min(_copied_inside(recording) / per, b["exposed copy"])
        spent_b[_COPIES] = spent_b.get(_COPIES, 0.0) + inside
        b["exposed copy"], b["compute"] = b["exposed copy"] - inside, b["compute"] + inside
    parts = [*_kernels((spent_a, spent_b), a["compute"], b["compute"])]
    parts += [
        _part(_TITLES.get(name, name), "", a[name], b[name], _CLOSED_BY[name]) for name in PARTS[1:]
    ]
    parts = [p for p in parts if p.delta_ns]
    left = delta_ns - sum(p.delta_ns for p in parts)
    if left:
        edges = "what the recording holds beside whole steps"
        parts.append(GapPart("edges of the recording", "", 0.0, float(left), left, edges))
    return sorted(parts, key=lambda p: (-abs(p.delta_ns), p.part, p.what))


def _part(part: str, what: str, a: float, b: float, closes: str) -> GapPart:
    return GapPart(part, what, a, b, round(b - a), closes)


def _parts(analysis: Analysis) -> dict[str, float]:
    """The parts of the mean rank's step in ns."""
    per = max(len(analysis.ranks), 1) * analysis.steps.count
    every = [r.breakdown.parts() for r in analysis.ranks]
    parts = {part: sum(p[part] for p in every) / per for part in PARTS}
    parts["other idle"] -= sum(r.breakdown.idle.get("cut", 0) for r in analysis.ranks) / per
    return parts


def _kernels(
    sums: tuple[dict[str, float], dict[str, float]], compute_a: float, compute_b: float
) -> Iterator[GapPart]:
    """Computation by operator; what runs side by side counts once in the whole, and is the last part."""
    names = {**sums[0], **sums[1]}
    order = sorted(names, key=lambda n: -abs(sums[1].get(n, 0.0) - sums[0].get(n, 0.0)))
    rest = [0.0, 0.0]
    for place, name in enumerate(order):
        times = [s.get(name, 0.0) for s in sums]
        if place < _NAMED:
            yield _part("kernels", short(name), times[0], times[1], _CLOSED_BY["compute"])
        else:
            rest = [rest[0] + times[0], rest[1] + times[1]]
    yield _part("kernels", "all others", rest[0], rest[1], _CLOSED_BY["compute"])
    beside = [c - sum(s.values()) for c, s in zip((compute_a, compute_b), sums, strict=True)]
    yield _part("kernels", "side by side", beside[0], beside[1], _STREAMS)


def _by_operator(analysis: Analysis) -> dict[str, float]:
    per = max(len(analysis.ranks), 1) * analysis.steps.count
    sums: dict[str, float] = {}
    for spent in analysis.operators.operators:
        if spent.kind == "compute":
            name = _family(spent.name)
            sums[name] = sums.get(name, 0.0) + spent.time_ns / per
    return sums


def _in_steps(recording: Run) -> Run:
    """The recording from its second step on, of whose steps the usual one is the median.

    What the first step found still running is of no step, and how it began was not recorded.
    """

    def whole(trace: Trace) -> Trace:
        steps = np.unique(trace.step[trace.step >= 0])
        return trace.select(trace.step >= steps[min(1, len(steps) - 1)]) if len(steps) else trace

    return as_run(narrow(recording, whole))


def _heads(recording: Run) -> dict[str, float]:
    """How long devices wait at the beginning of the step that `_in_steps` begins with, by what for.

    That is after the work of the step before it, which is not selected with it.
    """
    waited = {"data": 0.0, "host": 0.0}
    for view in rank_views(recording):
        steps = np.unique(view.trace.step[view.trace.step >= 0])
        works = view.works_on_device & view.ran
        before, within = (works & np.isin(view.trace.step, s) for s in (steps[:1], steps[1:2]))
        if len(steps) < 2 or not before.any() or not within.any():
            continue
        begin, end = int(view.end[before].max()), int(view.start[within].min())
        loads = np.flatnonzero(view.loads_data & view.on_host & view.ran)
        loading = Intervals.of(view.start[loads], view.end[loads]).cut(begin, max(end, begin)).total
        waited["data"] += loading
        waited["host"] += max(end - begin, 0) - loading
    return waited


def _copied_inside(recording: Run) -> float:
    """Nanoseconds of copies from one place of a device's memory to another."""
    return float(
        sum(
            view.duration[view.named(_INSIDE.match) & (view.kind == RowKind.COPY)].sum()
            for view in rank_views(recording)
        )
    )


def _recorded_by_operator(recording: Run, known: set[str]) -> dict[str, float]:
    """Nanoseconds of computation by operator: the outermost around a kernel that the prediction has too."""
    sums: dict[str, float] = {}
    for view in rank_views(recording):
        rows = np.flatnonzero(view.works_on_device & (view.kind == RowKind.COMPUTE))
        codes = view.names[0]
        row, name, texts = view.called(rows)
        families = [_family(text) for text in texts]
        shared = np.array([family in known for family in families], np.bool_)
        # A kernel of a graph has no caller, though it names its operator.
        row = np.where(row == rows, -1, row)
        while (row >= 0).any():
            code = codes[np.maximum(row, 0)]
            name = np.where((row >= 0) & shared[code], code, name)
            row = np.where(row >= 0, view.parent[np.maximum(row, 0)], -1)
        spent = np.bincount(name, spent_on(view, rows).astype(np.float64), len(texts))
        for number in np.flatnonzero(spent).tolist():
            sums[families[number]] = sums.get(families[number], 0.0) + float(spent[number])
    return sums


def _family(name: str) -> str:
    """An operator's name for both runs: a profiler calls some by their caller, some by their callee.

    What a compiler calls its kernels depends on its version.
    """
    if name.startswith("triton_"):
        return "generated kernels"
    short_name = name.partition("::")[2] or name
    for kind in ("attention", "convolution", "batch_norm"):
        if kind in short_name:
            return f"{kind} backward" if "backward" in short_name else kind
    return _COPIES if operator_of(name).work is Work.COPY else name.rstrip("_")
