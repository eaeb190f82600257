"""Program: one body as the arrays a simulation needs, independent of ranks and machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I8, I32, I64, Mask
from chakrakit.errors import TraceError
from chakrakit.machines.device import split_units
from chakrakit.trace.communication import Calls, read_joint_calls
from chakrakit.trace.model import (
    COMMUNICATION,
    EdgeKind,
    Edges,
    JointTrace,
    NodeType,
    Trace,
    jointly,
)
from chakrakit.trace.placement import (
    has_edges,
    implied_order,
    issue_order,
    issued,
    lane_of,
    on_host,
    ordered_by_edges,
    stored,
)

PLAIN, COMPUTE, COMM, STORAGE = 0, 1, 2, 3
ORDERED, POOL, QUEUE_ONLY = 0, 1, 2
MOST_WEIGHT = 65_535
"""On links: the core keeps a flow's weight in 16 bits."""
_HOST, _DEVICE = -1, -2
"""Lanes of rows without a thread and a stream."""


@dataclass(frozen=True, eq=False)
class Stored:
    """Reads and writes of a body at stores of the machine, in issue order."""

    row: I64
    store: list[str]
    size: I64
    writes: Mask
    pieces: I64
    peer: I64
    """The rank whose memory is read or written, as the body names it; -1 for a store."""
    window: list[str]


@dataclass(frozen=True, eq=False, kw_only=True)
class Program:
    """A body ready to run.

    Rows with a `stream` or `tid` run in order on it. Device and host compute rows without one share one
    pool lane each, as they get ready; communication without a stream starts whenever it can. Rows on units
    run on lanes of these, and edges keep the order of their streams. A trace with
    stream edges has the order of its streams in them, and streams then only limit how far launches run
    ahead; with thread or call edges the same holds for its threads.
    """

    trace: Trace
    edges: Edges
    kind: I8
    lane: I32
    lane_kind: I8
    order: I64
    priority: I32
    share: I32
    """Millionths of the device: the most that a compute row uses, and what a communication row occupies."""
    waves: I64
    """Rounds of a compute row; communication of a higher priority can start between them."""
    launch_of: I32
    stored: Stored

    def __len__(self) -> int:
        return len(self.trace)


def read_program(trace: Trace, widths: Mapping[str, int] | None = None) -> Program:
    """The program of a body; `widths` says how many rows a unit of a device runs at a time."""
    return _read(trace, widths or {}, np.zeros(len(trace), np.int64))[0]


def _read(trace: Trace, widths: Mapping[str, int], part: I64) -> tuple[Program, I64]:
    """The program, with lanes numbered from 0 in each part, and where the lanes of each part begin."""
    kind = row_kinds(trace)
    _check_link_weights(trace)
    lane, lane_kind, begin = _lanes(trace, widths, part)
    program = Program(
        trace=trace,
        edges=_with_streams_of_units(trace),
        kind=kind,
        lane=lane,
        lane_kind=lane_kind,
        order=issue_order(trace),
        priority=trace.column("comm_priority", 0).astype(np.int32),
        share=_shares(trace, kind),
        waves=_waves(trace),
        launch_of=_launchers(trace),
        stored=_stored(trace),
    )
    return program, begin


def read_programs(
    bodies: Sequence[Trace], widths: Mapping[str, int] | None = None
) -> tuple[list[Program | None], dict[int, Calls]]:
    """Programs and calls of bodies that can be read together; None for those that have to be read alone."""
    programs: list[Program | None] = [None] * len(bodies)
    calls: dict[int, Calls] = {}
    for places in jointly(bodies):
        alike = [bodies[place] for place in places]
        joint = JointTrace(alike)
        if not joint.is_counted or not _is_plain(joint):
            continue
        joint.tell(alike)
        for place, program in zip(places, _slices(joint, alike, widths or {}), strict=True):
            programs[place] = program
        calls |= dict(zip(places, read_joint_calls(joint), strict=True))
    return programs, calls


def _is_plain(joint: JointTrace) -> bool:
    """Whether bodies can be read together: none has a fault, and none a rule of its own for its lanes."""
    lanes = (EdgeKind.THREAD, EdgeKind.CALL, EdgeKind.STREAM)
    if joint.is_dangling or "unit" in joint.column_names or has_edges(joint, *lanes):
        return False
    return not stored(joint).any()


def _slices(
    joint: JointTrace, bodies: Sequence[Trace], widths: Mapping[str, int]
) -> list[Program | None]:
    try:
        whole, begin = _read(joint, widths, joint.part)
    except TraceError:  # the body at fault says which node it is
        return [None] * len(bodies)
    order = np.empty(len(joint), np.int64)
    order[np.lexsort((whole.order, joint.part))] = np.arange(len(joint))
    order -= joint.offset[joint.part]
    first, launch = joint.offset[:-1], whole.launch_of
    local = np.where(launch >= 0, launch - np.repeat(first, np.diff(joint.offset)), -1)
    launch_of = local.astype(np.int32)
    rows = joint.offset.tolist()
    lanes = begin.tolist()
    return [
        Program(
            trace=body,
            edges=body.edges,
            kind=whole.kind[a:b],
            lane=whole.lane[a:b],
            lane_kind=whole.lane_kind[p:q],
            order=order[a:b],
            priority=whole.priority[a:b],
            share=whole.share[a:b],
            waves=whole.waves[a:b],
            launch_of=launch_of[a:b],
            stored=whole.stored,
        )
        for body, a, b, p, q in zip(bodies, rows, rows[1:], lanes, lanes[1:], strict=False)
    ]


def row_kinds(trace: Trace) -> I8:
    """What each row is to a simulation: PLAIN, COMPUTE, COMM or STORAGE."""
    comm = trace.is_type(*COMMUNICATION)
    device = trace.is_type(NodeType.COMP_NODE) & ~on_host(trace)
    kind = np.where(comm, COMM, np.where(device, COMPUTE, PLAIN)).astype(np.int8)
    kind[stored(trace)] = STORAGE
    return kind


def _shares(trace: Trace, kind: I8) -> I32:
    share = np.where(kind == COMM, 0.0, 1.0)
    stated = trace.has("device_share")
    share[stated] = trace.column("device_share", 0.0)[stated]
    _check(trace, stated & ~((share >= 1e-6) & (share <= 1)), "device_share", "from 1e-6 to 1")
    return np.rint(share * 1e6).astype(np.int32)


def _waves(trace: Trace) -> I64:
    waves = trace.column("waves", 1).astype(np.int64)
    _check(trace, waves < 1, "waves", "1 or more")
    return waves


def _check_link_weights(trace: Trace) -> None:
    weight, given = trace.column("link_weight", 1), trace.has("link_weight")
    expected = f"a whole number from 1 to {MOST_WEIGHT:,}"
    _check(trace, given & ~((weight >= 1) & (weight <= MOST_WEIGHT)), "link_weight", expected)


def _check(trace: Trace, wrong: Mask, name: str, expected: str) -> None:
    for row in np.flatnonzero(wrong)[:1].tolist():
        value = trace.column(name, 0)[row]
        raise TraceError(
            f"node {trace.ids[row]} ({trace[row].name!r}): {name} is {value}; it should be {expected}"
        )


def _lanes(trace: Trace, widths: Mapping[str, int], part: I64) -> tuple[I32, I8, I64]:
    """The lane of each row, from 0 in each part; each lane's kind; where the lanes of parts begin."""
    host = on_host(trace)
    works = trace.is_type(NodeType.COMP_NODE)
    keys = np.full(len(trace), _NONE, np.int64)
    keys[works] = np.where(host[works], _HOST, _DEVICE)
    lane = lane_of(trace)
    keys[lane >= 0] = lane[lane >= 0]  # numbers below 0 are the pools
    _place_on_units(trace, keys, widths)
    parts = int(part[-1]) + 1 if len(part) else 1
    if ordered_by_edges(trace, host=True):
        keys[host & (lane >= 0)] = _NONE
    number = np.full(len(trace), -1, np.int32)
    rows = np.flatnonzero(keys != _NONE)
    if not len(rows):
        return number, np.zeros(0, np.int8), np.zeros(parts + 1, np.int64)
    distinct, code = np.unique(keys[rows], return_inverse=True)
    used, place = np.unique(part[rows] * len(distinct) + code, return_inverse=True)
    begin = np.searchsorted(used // len(distinct), np.arange(parts + 1))
    number[rows] = place - begin[part[rows]]
    stream_kind = QUEUE_ONLY if ordered_by_edges(trace, host=False) else ORDERED
    kinds = [POOL if k < 0 else ORDERED if k % 2 else stream_kind for k in distinct.tolist()]
    return number, np.array(kinds, np.int8)[used % len(distinct)], begin


def _place_on_units(trace: Trace, keys: I64, widths: Mapping[str, int]) -> None:
    """Gives rows that name a unit one of its lanes in turn; a split row one of its largest part's."""
    if "unit" not in trace.column_names:
        return
    codes, texts = trace.texts("unit")
    shares = [split_units(text) for text in texts]
    unit_of = [max(each, key=each.__getitem__) for each in shares]
    first = _DEVICE - 1
    for name in dict.fromkeys(unit_of):
        of_unit = [code for code, unit in enumerate(unit_of) if unit == name]
        rows = issued(trace, np.flatnonzero(np.isin(codes, of_unit)))
        width = widths.get(name, 1)
        keys[rows] = first - np.arange(len(rows)) % width
        first -= width


def _with_streams_of_units(trace: Trace) -> Edges:
    """The edges, and the order of streams next to rows on units, whose lanes are those of their units."""
    if "unit" not in trace.column_names:
        return trace.edges
    before, after = implied_order(trace)
    on_unit = trace.has("unit")
    beside = on_unit[before] | on_unit[after]
    return Edges.concat([trace.edges, Edges.of(before[beside], after[beside], EdgeKind.STREAM)])


_NONE = np.iinfo(np.int64).min


def _launchers(trace: Trace) -> I32:
    launch_of = np.full(len(trace), -1, np.int32)
    edges = trace.edges
    launch = edges.kind == EdgeKind.LAUNCH
    launch_of[edges.dst[launch]] = edges.src[launch]
    return launch_of


def _stored(trace: Trace) -> Stored:
    rows = issued(trace, np.flatnonzero(stored(trace)))
    size = trace.column("tensor_size", 0).astype(np.int64)
    wrong = np.zeros(len(trace), np.bool_)
    wrong[rows] = size[rows] <= 0
    _check(trace, wrong, "tensor_size", "the bytes that are read or written, 1 or more")
    names = trace.column("storage", "") if len(rows) else np.zeros(0, object)
    writes = trace.types[rows] == NodeType.MEM_STORE_NODE
    pieces = trace.column("pieces", 1).astype(np.int64)
    _check(trace, pieces < 1, "pieces", "1 or more")
    windows = trace.column("window", "") if "window" in trace.column_names else None
    far = np.where(writes, trace.column("comm_dst", -1)[rows], trace.column("comm_src", -1)[rows])
    is_far = np.zeros(len(rows), np.bool_) if windows is None else windows[rows] != ""
    wrong[:] = False
    wrong[rows[is_far & (far < 0)]] = True
    _check(trace, wrong, "window", "with the other rank: comm_dst of a write, comm_src of a read")
    return Stored(
        row=rows,
        store=[str(names[r]) for r in rows.tolist()],
        size=size[rows],
        writes=writes,
        pieces=pieces[rows],
        peer=np.where(is_far, far, -1).astype(np.int64),
        window=[] if windows is None else [str(windows[r]) for r in rows.tolist()],
    )
