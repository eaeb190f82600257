"""All ranks' corrected times together: a collective ends when the last rank has come to it.

Each rank by itself is as early as its own constraints allow. How long it then waits for its peers is
no longer what was recorded, since they are earlier too: only the transfer itself is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import DeadlockError
from chakrakit.sources.pytorch import names as words
from chakrakit.sources.pytorch.clocks import RankCollectives
from chakrakit.trace.communication import Body
from chakrakit.trace.model import EdgeForm, EdgeKind, Edges, Trace
from chakrakit.trace.placement import nested_ends
from chakrakit.trace.timing import schedule


@dataclass(frozen=True)
class _Call:
    """One rank's part in a collective or message: its row among all, and its recorded times."""

    row: int
    start: int
    end: int
    sends: bool = False
    receives: bool = False


def meet(
    bodies: Mapping[int, Body],
    recorded: Mapping[int, RankCollectives],
    begin: Mapping[int, int],
    epoch: Mapping[int, int],
) -> dict[int, tuple[I64, I64]]:
    """Start and end of every rank's rows; nothing where no two ranks communicate.

    `begin` says when the first row of each rank starts on the clock of all, `epoch` when it does on
    the rank's own, which `recorded` counts by.
    """
    offset, own_times, parts = 0, [], []
    first: dict[int, int] = {}
    for rank, body in sorted(bodies.items()):
        trace = _loaded(body)
        first[rank] = offset
        own_times.append(trace.own_ns)
        parts.append(_shifted(trace.edges, offset))
        offset += len(trace)
    shift = {rank: begin[rank] - epoch[rank] for rank in begin}
    calls = _calls(recorded, first, shift)
    if not calls:
        return {}
    durations = np.concatenate(own_times)
    release = _releases(parts, offset, first, begin)
    scheduled = _scheduled(parts, durations, release, calls)
    if scheduled is None:
        return {}
    return {
        rank: _nested(_loaded(body), scheduled[0], scheduled[1], first[rank])
        for rank, body in bodies.items()
    }


def _loaded(body: Body) -> Trace:
    return body if isinstance(body, Trace) else body()


def _shifted(edges: Edges, by: int) -> Edges:
    step = np.int32(by)
    return Edges(edges.src + step, edges.dst + step, edges.kind, edges.form, edges.lag, edges.ctrl)


def _releases(
    parts: Sequence[Edges], rows: int, first: Mapping[int, int], begin: Mapping[int, int]
) -> I64:
    """Earliest start of each row: when its rank begins."""
    release = np.zeros(rows, np.int64)
    bounds = [*sorted(first.values()), rows]
    for (rank, a), b in zip(sorted(first.items()), bounds[1:], strict=True):
        release[a:b] = begin[rank]
    return release


def _calls(
    recorded: Mapping[int, RankCollectives], first: Mapping[int, int], shift: Mapping[int, int]
) -> list[list[_Call]]:
    """The calls of each collective or message that at least two ranks took part in."""
    together: dict[tuple[object, ...], list[_Call]] = {}
    for rank, of_rank in sorted(recorded.items()):
        nth: dict[tuple[object, ...], int] = {}
        for c, start, end in zip(of_rank.collectives, of_rank.start, of_rank.end, strict=True):
            key: tuple[object, ...] = (c.group, c.sequence)
            if c.is_message:
                ends = (rank, c.peer) if c.kind == words.SEND else (c.peer, rank)
                pair = ("message", *ends, c.tag, c.kind)
                nth[pair] = nth.get(pair, -1) + 1
                key = (*pair[:-1], nth[pair])
            sends, receives = c.kind == words.SEND, c.kind == words.RECV
            at, by = first[rank] + c.row, shift[rank]
            call = _Call(at, start + by, end + by, sends, receives)
            together.setdefault(key, []).append(call)
    return [calls for calls in together.values() if len(calls) > 1]


def _scheduled(
    parts: list[Edges], own_ns: I64, release: I64, calls: list[list[_Call]]
) -> tuple[I64, I64] | None:
    """Schedule all rows, with one more row per meeting; None if meetings contradict the order of rows."""
    rows = len(own_ns)
    own_ns = own_ns.copy()
    come: list[tuple[int, int]] = []
    leave: list[tuple[int, int, int]] = []
    meetings = 0
    for together in calls:
        arrives = [c for c in together if c.sends] or together
        waiting = [c for c in together if c.receives] or together
        last = max(c.start for c in together)
        if any(c.end < last for c in waiting):
            continue  # clocks too far apart to tell who waited for whom
        come += [(c.row, rows + meetings) for c in {*arrives, *waiting}]
        leave += [(rows + meetings, c.row, c.end - last) for c in waiting]
        own_ns[[c.row for c in waiting]] = 0
        meetings += 1
    extra = _meeting_edges(come, leave)
    edges = Edges.concat([*parts, extra])
    durations = np.concatenate([own_ns, np.zeros(meetings, np.int64)])
    earliest = np.concatenate([release, np.zeros(meetings, np.int64)])
    try:
        timed = schedule(rows + meetings, edges, durations, release=earliest)
    except DeadlockError:
        return None
    return timed.start[:rows], timed.end[:rows]


def _meeting_edges(come: list[tuple[int, int]], leave: list[tuple[int, int, int]]) -> Edges:
    arrive = np.array(come, np.int32).reshape(-1, 2)
    depart = np.array(leave, np.int64).reshape(-1, 3)
    return Edges.concat(
        [
            Edges.of(arrive[:, 0], arrive[:, 1], EdgeKind.INFERRED, EdgeForm.START_START),
            Edges.of(
                depart[:, 0].astype(np.int32),
                depart[:, 1].astype(np.int32),
                EdgeKind.INFERRED,
                EdgeForm.FINISH_FINISH,
                depart[:, 2],
            ),
        ]
    )


def _nested(trace: Trace, start: I64, end: I64, first: int) -> tuple[I64, I64]:
    mine = slice(first, first + len(trace))
    return start[mine], nested_ends(trace, start[mine], end[mine])
