"""The report of linking: what was matched, repaired, inferred and left out, per rank and in total."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import numpy as np

from chakrakit.arrays import I64
from chakrakit.operators import asks_loader, computes
from chakrakit.results import Result
from chakrakit.sources.pytorch.edges import TOLERANCE_NS, violations
from chakrakit.sources.pytorch.linking.rank import Rank
from chakrakit.sources.pytorch.read import Kind
from chakrakit.sources.pytorch.timeline import Timeline
from chakrakit.trace.model import EdgeKind
from chakrakit.trace.sets import RecordedStep
from chakrakit.trace.timing import Intervals, schedule


def step_periods(linked: Rank, start: I64, end: I64) -> list[dict[str, Any]]:
    """Each step's range on the host and its period on the device, both measured and scheduled.

    A period lasts from the end of the device's work for the step before to the end of its own; a
    kernel belongs to the step that launched it. The first period begins with the last orphan, or
    where there is none with the step itself. Without device work the host's operators work, and a step in
    which none does, such as one that only finds its data loader empty, is none.
    """
    out = []
    line = linked.line
    rows = _working_rows(linked)
    measured, planned = _ends(linked, rows, line.start, line.end), _ends(linked, rows, start, end)
    on_device = len(linked.device.rows) > 0
    for i, step in enumerate(linked.attribution.steps):
        facts = {"step": step.number, "measured_ns": step.end - step.start}
        if not len(rows):
            mine = linked.attribution.step == step.number
            facts["scheduled_ns"] = int(end[mine].max() - start[mine].min())
        elif on_device or (linked.attribution.step[rows] == step.number).any():
            facts["period_ns"] = measured[i + 1] - measured[i]
            facts["scheduled_period_ns"] = planned[i + 1] - planned[i]
        else:
            continue
        out.append(facts)
    return out


def _working_rows(linked: Rank) -> I64:
    """The rows whose ends end steps: those of the device, else what the host computes and communicates.

    What is no operator computes where nothing runs inside it, as an optimizer's step does; a data loader's
    rows do not, nor does the mark of a step.
    """
    if len(linked.device.rows):
        return linked.device.rows
    line, names = linked.line, linked.names
    leaf = np.ones(len(line), np.bool_)
    leaf[line.parent[line.parent >= 0]] = False
    unknown = names.where(lambda name: computes(name) is None and not name.startswith(_STEP_MARK))
    works = names.where(computes) | (unknown & leaf)
    loads = names.where(asks_loader)
    while (inside := (line.parent >= 0) & loads[line.parent] & ~loads).any():
        loads |= inside
    works &= line.is_host & ~loads
    works[[c.row for c in linked.collectives]] = True
    return np.flatnonzero(works)


_STEP_MARK = "ProfilerStep#"


def steady_period(linked: Rank) -> int:
    """The last step's period as scheduled, 0 where there is none: the first begins with an idle device."""
    timed = schedule(len(linked.line), linked.edges, linked.own_ns)
    steps = step_periods(linked, timed.start, timed.end)
    if not steps:
        return 0
    return int(steps[-1].get("scheduled_period_ns") or steps[-1].get("scheduled_ns", 0))


def device_time(linked: Rank) -> int:
    """How long the device works for the last step as scheduled: a host slowed by recording overlaps less."""
    steps, rows = linked.attribution.steps, linked.device.rows
    if not steps:
        return 0
    timed = schedule(len(linked.line), linked.edges, linked.own_ns)
    mine = rows[linked.attribution.step[rows] == steps[-1].number]
    return int(Intervals.of(timed.start[mine], timed.end[mine]).total)


def _ends(linked: Rank, rows: I64, start: I64, end: I64) -> list[int]:
    """When these rows were done with what came before, and then with each step."""
    steps, line = linked.attribution.steps, linked.line
    if not len(rows) or not steps:
        return []
    orphans = linked.device.orphans
    first = np.flatnonzero(linked.attribution.step == steps[0].number)
    hosted = first[line.is_host[first]]
    begin = hosted if len(hosted) else first
    last = int(end[rows].max())
    ends = [min(last, int(end[orphans].max() if len(orphans) else start[begin].min()))]
    for step in steps:
        mine = rows[linked.attribution.step[rows] == step.number]
        # A step that is over before the one before it takes nothing of its own.
        ends.append(max(ends[-1], int(end[mine].max())) if len(mine) else ends[-1])
    return ends


class InOut(Result, msgspec.Struct, frozen=True):
    """How much was in the files, and how much of it is in the trace."""

    in_: int = msgspec.field(name="in")
    linked: int


class RankReport(Result, msgspec.Struct, kw_only=True):
    """One rank's figures. Times are ns; `edge_violations` counts edges the measurement contradicts."""

    rank: int
    files: list[str] = []
    host_ops: InOut
    device_activities: InOut
    device_time_ns: InOut
    runtime_calls: int = 0
    annotations: int = 0
    matched_by: dict[str, int] = {}
    measured_span_ns: int
    scheduled_span_ns: int
    start_error_ns: dict[str, int] = {}
    edge_violations: int
    edges: dict[str, int] = {}
    collectives: dict[str, int] = {}
    p2p: dict[str, int] = {}
    steps: list[dict[str, Any]] = []
    orphans: int = 0
    programmatic_overlaps: int = 0
    waits: dict[str, int] = {}
    repaired: dict[str, int] = {}
    dropped: dict[str, int] = {}
    inferred: dict[str, int] = {}
    left_out_events: dict[str, int] = {}
    graphs: dict[str, int] = {}
    """Launches of CUDA or HIP graphs, rows they ran, and how many of those a capture names."""
    like_communication: dict[str, int] = {}
    """Kernels that look like communication, are in no table and count as computation: name → how many."""
    removed_overhead_ms: float = 0.0
    overhead_factor: float = 1.0
    """How many times what the card says recording cost, to give the un-recorded step back."""
    clock_offset_ns: int = 0
    warnings: list[str] = []


class LinkReport(Result, msgspec.Struct, kw_only=True):
    """All ranks, and what concerns them together."""

    ranks: list[RankReport]
    groups: dict[str, list[int]] = {}
    ignored_files: dict[str, str] = {}
    clock: dict[str, Any] = {}
    overhead: dict[str, Any] = {}
    recording: RecordedStep | None = None
    """What is known of the step; the fields below say the same under the names they had before."""
    step_ns: int = 0
    """The step of the run that was written."""
    recorded_step_ns: int = 0
    corrected_step_ns: int = 0
    unprofiled_step_ns: int = 0
    """0 if the program was not timed without recording it."""
    corrected: str = ""
    """How recording's cost was taken out; empty where it was not."""
    least_step_ns: int = 0
    """Between these the step lies where that cost is an estimate; 0 where it is not."""
    most_step_ns: int = 0
    warning: str = ""

    def __post_init__(self) -> None:
        if (step := self.recording) is not None:
            self.step_ns = step.step_ns
            self.recorded_step_ns = step.recorded_step_ns
            self.corrected_step_ns = step.step_ns if step.corrected else 0
            self.unprofiled_step_ns = step.unprofiled_step_ns
            self.corrected = step.corrected
            self.least_step_ns, self.most_step_ns = step.least_step_ns, step.most_step_ns
            self.warning = step.warning


def report_rank(linked: Rank, files: list[str]) -> RankReport:
    """Check the rank against itself by scheduling it, and count everything."""
    line = linked.line
    timed = schedule(len(line), linked.edges, linked.own_ns)
    inside = np.ones(len(line), np.bool_)
    inside[linked.device.orphans] = False
    device = line.lane >= 0
    activities, device_time = _device(linked)
    messages = Counter(c.type_name for c in linked.collectives if c.is_message)
    alike = _like_communication(linked)
    return RankReport(
        rank=linked.rank,
        files=files,
        host_ops=_host_ops(linked),
        device_activities=activities,
        device_time_ns=device_time,
        runtime_calls=int(((line.kind == Kind.CALL) & line.is_host).sum()),
        annotations=int((line.kind == Kind.ANNOTATION).sum()),
        matched_by=linked.joined.rules,
        measured_span_ns=_span(line.start, line.end, inside),
        scheduled_span_ns=_span(timed.start, _returned(line, timed.end), inside),
        start_error_ns=_errors(timed.start, line.start, inside),
        edge_violations=violations(line, linked.edges, TOLERANCE_NS),
        edges=_edge_counts(linked),
        collectives=dict(Counter(c.type_name for c in linked.collectives if not c.is_message)),
        p2p={"SEND": messages["SEND"], "RECV": messages["RECV"]},
        steps=step_periods(linked, timed.start, timed.end),
        orphans=int((device & ~inside).sum()),
        programmatic_overlaps=linked.counts["programmatic_overlaps"],
        waits=_waits(linked),
        repaired=_repaired(linked),
        dropped=_dropped(linked),
        left_out_events=_left_out(linked),
        graphs=_graphs(linked),
        like_communication=alike,
        removed_overhead_ms=round(linked.undilated_ms, 3),
        overhead_factor=round(linked.overhead_factor, 3),
        warnings=_warnings(linked, alike),
    )


def _span(start: Any, end: Any, rows: Any) -> int:
    return int(end[rows].max() - start[rows].min()) if rows.any() else 0


def _returned(line: Timeline, end: I64) -> I64:
    """Scheduled ends, callers that are open at their thread's end included.

    A schedule gives a caller its own time; nothing of its thread follows that would show when it
    returns, so it does so as long after the last thing it called as was measured.
    """
    out, ends, parent = end.tolist(), line.end.tolist(), line.parent.tolist()
    rows, before = line.thread_order()
    for row in np.setdiff1d(rows, before).tolist():
        after = int(end[row]) - ends[row]
        above = parent[row]
        while above >= 0:
            out[above] = max(out[above], after + ends[above])
            above = parent[above]
    return np.array(out, np.int64)


def _errors(start: Any, measured: Any, rows: Any) -> dict[str, int]:
    if not rows.any():
        return {}
    wrong = np.abs((start - start[0]) - (measured - measured[0]))[rows]
    return {"median": int(np.median(wrong)), "largest": int(wrong.max())}


def _host_ops(linked: Rank) -> InOut:
    if linked.observer is not None:
        recorded = int(linked.observer.is_operator.sum())
        return InOut(recorded, len(np.unique(linked.line.operator[linked.line.operator >= 0])))
    assert linked.kineto is not None
    kinds = (Kind.OPERATOR, Kind.ANNOTATION)
    recorded = int(np.isin(linked.kineto.kind, kinds).sum())
    return InOut(recorded, int((np.isin(linked.line.kind, kinds) & linked.line.is_host).sum()))


def _device(linked: Rank) -> tuple[InOut, InOut]:
    line = linked.line
    rows = line.lane >= 0
    in_trace = (int(rows.sum()), int(line.duration[rows].sum()))
    in_file = (0, 0)
    if linked.kineto is not None:
        events = linked.kineto.is_device
        in_file = (int(events.sum()), int(linked.kineto.duration[events].sum()))
    return InOut(in_file[0], in_trace[0]), InOut(in_file[1], in_trace[1])


def _edge_counts(linked: Rank) -> dict[str, int]:
    counts = np.bincount(linked.edges.kind, minlength=len(EdgeKind))
    return {EdgeKind(i).name.lower(): int(n) for i, n in enumerate(counts) if n}


def _waits(linked: Rank) -> dict[str, int]:
    return {
        "synchronizations": linked.waits.synchronizations,
        "blocking_copies": linked.waits.blocking_copies,
        "blocked_launches": linked.waits.blocked_launches,
        "stream_waits": linked.counts["event_waits"],
        "communication": linked.counts["communication_waits"],
        "handovers": linked.counts["handovers"],
        "queue_depth": linked.waits.queue_depth,
    }


def _repaired(linked: Rank) -> dict[str, int]:
    out: Counter[str] = Counter()
    for name, side in (("observer", linked.observer), ("kineto", linked.kineto)):
        if side is not None:
            out[f"{name}_unescaped"] = side.repaired
            out[f"{name}_truncated"] = int(side.truncated)
    if linked.observer is not None:
        out["short_strides"] = linked.observer.short_strides
        timed = linked.joined.event_of >= 0
        missing = int((linked.observer.is_operator & ~timed).sum())
        two_pass = linked.joined.operator_of is not None
        out["only_in_observer_pass" if two_pass else "placed_without_time"] = missing
    return {k: n for k, n in out.items() if n}


def _dropped(linked: Rank) -> dict[str, int]:
    out: Counter[str] = Counter()
    for name, side in (("observer_nodes", linked.observer), ("kineto_events", linked.kineto)):
        out[name] = side.dropped if side is not None else 0
    out["edges_against_time"] = linked.counts["refuted_edges"]
    out["edges_merged"] = linked.sound.merged
    out["edges_in_circles"] = len(linked.sound.circular)
    return {k: n for k, n in out.items() if n}


_NAMED = 10
"""At most so many names of a kind are listed."""
_NO_NODES = {
    Kind.OTHER: "other",
    Kind.SYNC: "cuda_sync",
    Kind.RANGE: "gpu_user_annotation",
    Kind.PYTHON: "python_function",
    Kind.OVERHEAD: "overhead",
}
"""Kinds of events that become no node but describe other events."""


def _left_out(linked: Rank) -> dict[str, int]:
    """Events of the device tracer's file that are not nodes, counted by what they are."""
    if linked.kineto is None:
        return {}
    out = Counter(linked.kineto.left_out)
    for kind, name in _NO_NODES.items():
        out[name] += int((linked.kineto.kind == kind).sum())
    return {name: n for name, n in out.items() if n}


def _graphs(linked: Rank) -> dict[str, int]:
    graphs = linked.graphs
    if not graphs.replays:
        return {}
    return {
        "launches": len(graphs.replays),
        "kernels": graphs.kernels,
        "with_operator": sum(bool(o.name) for o in graphs.operators.values()),
        "launches_without_capture": graphs.unmatched,
    }


def _like_communication(linked: Rank) -> dict[str, int]:
    """Kernels that may be communication of a library that is not known, the longest in all first."""
    line, names = linked.line, linked.names
    collective = np.zeros(len(line), np.bool_)
    collective[[c.row for c in linked.collectives]] = True
    numbers = names.number[(line.kind == Kind.KERNEL) & ~collective]
    used, first, counts = np.unique(numbers, return_index=True, return_counts=True)
    each = {names.strings[used[i]]: int(counts[i]) for i in np.argsort(first).tolist()}
    alike = {name: count for name, count in each.items() if linked.kernels.is_alike(name)}
    return dict(Counter(alike).most_common(_NAMED))


def _captures_unused(linked: Rank) -> list[str]:
    """Why graphs that were replayed have no operators, where there are captures that could name them."""
    graphs = linked.graphs
    if not graphs.unmatched:
        aligned = f"{graphs.aligned:,} of {len(graphs.replays):,} launches of graphs ran a few nodes more or "
        return (
            [f"{aligned}less than their capture holds; aligned by names"] if graphs.aligned else []
        )
    captured = ", ".join(map(str, sorted(set(graphs.captured)))) or "none"
    replayed = ", ".join(map(str, sorted({len(r.rows) for r in graphs.replays})))
    return [
        f"{graphs.unmatched:,} of {len(graphs.replays):,} launches of graphs have no capture that fits, so "
        f"that their kernels have no operators: they ran {replayed} nodes, captures hold {captured}"
    ]


def _warnings(linked: Rank, alike: dict[str, int]) -> list[str]:
    out = [
        f"dropped {kind} edge {linked.names[a]!r} → {linked.names[b]!r}: it closed a circle"
        for a, b, kind in linked.sound.circular[:10]
    ]
    out += _captures_unused(linked)
    out += [
        f"{name!r} ({count:,} times) looks like communication and counts as computation; "
        "--comm-pattern REGEX=KIND says what it is"
        for name, count in alike.items()
    ]
    observer = linked.observer
    if observer is not None and not observer.known_schema:
        out.append(f"schema {observer.schema!r} is newer than what is known here; read by its keys")
    if observer is not None and observer.truncated:
        out.append("the observer's file ends early; what it holds is linked")
    if linked.kineto is not None and linked.kineto.truncated:
        out.append("the Kineto file ends early; what it holds is linked")
    if linked.kineto is not None and linked.kineto.dropped:
        out.append(
            f"{linked.kineto.dropped:,} of the Kineto file's events left out: damaged, or with a time that "
            "is not a number"
        )
    if linked.kineto is not None and linked.kineto.endless:
        out.append(
            f"{linked.kineto.endless:,} events end before they begin: they are taken as moments"
        )
    return out
