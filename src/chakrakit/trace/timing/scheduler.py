"""When everything runs: edges, durations and resources in; start, end and what each waited for out.

This is the only scheduler of graphs without a network model; all rooms use it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

import chakrakit.core as core
from chakrakit.arrays import I8, I32, I64, Mask
from chakrakit.errors import DeadlockError, TraceError
from chakrakit.trace.model import (
    MAX_ROWS,
    EdgeForm,
    EdgeKind,
    Edges,
    Scalar,
    Trace,
    check_range,
    column,
)

_SHOWN = 6
"""Waits of a circle that a message explains; each takes half a line, and one cured is enough."""


class Reason(IntEnum):
    """Why a row started or ended no earlier."""

    NONE = 0
    """A start that nothing held back but its release (time 0 unless given)."""
    DEPENDENCY = 1
    """An edge; `edge` or `end_edge` says which, and so its kind."""
    RESOURCE = 2
    """A start that waited for the row before it on its resource to end."""
    OWN = 3
    """An end that came when the row's own duration was over."""
    QUEUE = 4
    """An end that waited for a kernel to start, and so to leave a full launch queue."""
    PEER = 5
    """A collective or message that waited for another rank to arrive. Only runs of several ranks have it."""


@dataclass(frozen=True, eq=False, repr=False)
class Schedule:
    """Times of every row in ns, and the constraint that set each of them.

    `binding` is the row waited for last before the start, `edge` the edge that made it wait,
    `reason` a code of Reason; the same for the end. -1 stands for no row and no edge: a RESOURCE
    or QUEUE has a row and no edge, NONE and OWN have neither. The critical path is walked back
    from the end of the row that ends last: an OWN end leads to the row's start, a QUEUE to a start,
    a RESOURCE to an end, a DEPENDENCY to the event its edge's form names.
    """

    start: I64
    end: I64
    binding: I32
    edge: I32
    reason: I8
    end_binding: I32
    end_edge: I32
    end_reason: I8

    @property
    def makespan(self) -> int:
        """Time from the first start to the last end; 0 without rows."""
        return int(self.end.max()) - int(self.start.min()) if len(self) else 0

    def __len__(self) -> int:
        return len(self.start)

    def __repr__(self) -> str:
        return f"Schedule({len(self):,} rows in {self.makespan:,} ns)"


def schedule(
    n: int,
    edges: Edges,
    durations: ArrayLike,
    *,
    resource: ArrayLike | None = None,
    order: ArrayLike | None = None,
    release: ArrayLike | None = None,
    queue_depth: int = 0,
    launch_of: ArrayLike | None = None,
) -> Schedule:
    """Start every row as early as its constraints allow.

        start(v) = max(release(v), end(previous on resource), FS: end(u)+lag, SS: start(u)+lag)
        end(v)   = max(start(v)+duration(v), FF: end(u)+lag, launch queue: start(kernel))

    Parameters
    ----------
    n
        Number of rows; every array below but those in `edges` has one entry per row.
    edges
        Dependencies between rows.
    durations
        Nanoseconds, not negative.
    resource
        What the row runs on, one row at a time; -1 for nothing. Any numbers do.
    order
        Rows of a resource run in ascending order of this key (default: the row), equal keys by row.
    release
        Earliest start, default 0.
    queue_depth
        D > 0: the launcher of the k-th launched kernel of a resource cannot end before the (k-D)-th has
        started; 0 for queues without end.
    launch_of
        The row that launched this kernel, or -1; counts for rows with a resource.

    Notes
    -----
    The latest constraint binds. On equal times: an end's own duration, then the edge with the
    lowest number, then the resource or the queue (lowest kernel row), then the release. Lags may
    be negative (a lead: the target may go that much before the source); a row still starts no
    earlier than its release, nor ends before its own duration is over.

    Each row has two events, start and end, so a caller may hold its callee back (start→start) and
    be held by it (finish→finish). Linear in rows and edges, but for sorting rows by `order` where
    they are not sorted yet. Raises DeadlockError when events wait for each other in a circle,
    TraceError when an array does not fit or a time leaves 64 bits.

    Examples
    --------
    >>> builder = ck.TraceBuilder()
    >>> first = builder.comp("a", duration_ns=5)
    >>> second = builder.comp("b", duration_ns=3, deps=[first])
    >>> trace = builder.build()
    >>> ck.schedule(len(trace), trace.edges, trace.duration_ns).end.tolist()
    [5, 8]

    """
    _check_size(n, edges, queue_depth)
    work = _one_per_row(n, durations, np.int64, "durations")
    check_range(work, 0, 2**63, "durations", "a duration cannot be negative")
    lanes = _resources(n, resource)
    launchers = _per_row(n, launch_of, np.int32, "launch_of")
    check_range(launchers, -1, n, "launch_of", "give the launcher's row, or -1 for none")
    keys = _per_row(n, order, np.int64, "order")
    earliest = _per_row(n, release, np.int64, "release")
    starts, finishes, circle = _solve(edges, work, lanes, keys, earliest, launchers, queue_depth)
    if len(circle[0]):
        raise DeadlockError(_deadlock_text(_Circle(*circle), edges, resource))
    start, binding, edge, reason = starts
    end, end_binding, end_edge, end_reason = finishes
    return Schedule(
        start=start,
        end=end,
        binding=binding,
        edge=edge,
        reason=reason,
        end_binding=end_binding,
        end_edge=end_edge,
        end_reason=end_reason,
    )


_Events: TypeAlias = tuple[I64, I32, I32, I8]


def _solve(
    edges: Edges,
    durations: I64,
    resource: I32,
    order: I64,
    release: I64,
    launch_of: I32,
    queue_depth: int,
) -> tuple[_Events, _Events, tuple[I64, I8, I32]]:
    src, dst = np.ascontiguousarray(edges.src), np.ascontiguousarray(edges.dst)
    form, lag = np.ascontiguousarray(edges.form), np.ascontiguousarray(edges.lag)
    try:
        return core.schedule_solve(
            src, dst, form, lag, durations, resource, order, release, launch_of, queue_depth
        )
    except OverflowError as error:
        raise TraceError(f"{error}; check durations, lags and release, which are in ns") from None


def _check_size(n: int, edges: Edges, queue_depth: int) -> None:
    if not 0 <= n <= MAX_ROWS or len(edges) > MAX_ROWS:
        raise TraceError(
            f"{n:,} rows and {len(edges):,} edges: a schedule takes 0..{MAX_ROWS:,} of each; "
            "split the trace"
        )
    for name, rows in (("src", edges.src), ("dst", edges.dst)):
        check_range(rows, 0, n, f"edges.{name}", f"there are {n:,} rows")
    if not 0 <= queue_depth < 2**63:
        raise TraceError(f"queue_depth is {queue_depth}; give 1 or more, or 0 for no limit")


def _per_row(n: int, values: ArrayLike | None, dtype: type[Scalar], name: str) -> NDArray[Scalar]:
    """The values checked; nothing at all, which the core takes for the default, where None."""
    if values is None:
        return np.empty(0, dtype)
    return _one_per_row(n, values, dtype, name)


def _one_per_row(n: int, values: ArrayLike, dtype: type[Scalar], name: str) -> NDArray[Scalar]:
    array = column(values, dtype, name)
    if len(array) != n:
        raise TraceError(f"{name} has {len(array):,} entries for {n:,} rows; give one per row")
    return array


def _resources(n: int, resource: ArrayLike | None) -> I32:
    array = _per_row(n, resource, np.int64, "resource")
    check_range(array, -1, 2**63, "resource", "number resources from 0, or -1 for none")
    if array.size and array.max() >= n:  # sparse numbers would cost memory: make them dense
        used, dense = np.unique(array, return_inverse=True)
        array = dense - int(used[0] == -1)
    return array.astype(np.int32)


class _Circle(NamedTuple):
    """A circular wait: event i (2 × row, + 1 for its end) waits for event i + 1, the last for 0."""

    events: I64
    reasons: I8
    edges: I32


_CURES = {
    Reason.DEPENDENCY: "remove one of these edges",
    Reason.RESOURCE: "change the order on the resource",
    Reason.QUEUE: "raise queue_depth",
}


def _deadlock_text(circle: _Circle, edges: Edges, resource: ArrayLike | None) -> str:
    # That a row ends after it starts needs no saying.
    waits = np.flatnonzero(circle.reasons != Reason.OWN)
    clauses = [_clause(circle, int(i), edges, resource) for i in waits[:_SHOWN]]
    if len(waits) > _SHOWN:
        clauses.append(f"and {len(waits) - _SHOWN:,} more")
    rows = len(np.unique(circle.events >> 1))
    who = f"{rows:,} rows wait for each other" if rows > 1 else "a row waits for itself"
    cure = " or ".join(cure for reason, cure in _CURES.items() if reason in circle.reasons)
    return f"{who} and can never run: {'; '.join(clauses)}. To go on, {cure}"


def _clause(circle: _Circle, i: int, edges: Edges, resource: ArrayLike | None) -> str:
    waiting, on = int(circle.events[i]), int(circle.events[(i + 1) % len(circle.events)])
    verb, event = "end" if waiting & 1 else "start", "ends" if on & 1 else "starts"
    why = _why(Reason(circle.reasons[i]), waiting >> 1, int(circle.edges[i]), edges, resource)
    return f"row {waiting >> 1} cannot {verb} before row {on >> 1} {event} ({why})"


def _why(reason: Reason, row: int, edge: int, edges: Edges, resource: ArrayLike | None) -> str:
    if reason is Reason.DEPENDENCY:
        return f"{EdgeKind(edges.kind[edge]).name.lower()} edge {edge}"
    if reason is Reason.RESOURCE:
        return f"order on resource {np.asarray(resource)[row]}"
    return "launch queue full"


def plain_span_ns(trace: Trace) -> int:
    """The longest path of a trace in which every dependency means "starts after the end of"."""
    if not len(trace):
        return 0
    finish, _ = trace.graph.longest_path(np.maximum(trace.duration_ns, 0))
    return int(finish.max())


_ROUNDING_NS = 1
"""Times of runs are rounded down to whole ns, so that ends that were equal may differ by this."""


def held_back(trace: Trace, start: I64, end: I64) -> Mask:
    """Rows whose end was set by a finish→finish edge, and came later than their own work would have ended.

    `start` and `end` are a run's times of the rows; how long their own work takes is in the trace.
    """
    bound_by_edge = np.zeros(len(trace), np.bool_)
    edges = trace.edges.where(trace.edges.form == EdgeForm.FINISH_FINISH)
    at = end[edges.src] + edges.lag
    bound_by_edge[edges.dst[np.abs(at - end[edges.dst]) <= _ROUNDING_NS]] = True
    return bound_by_edge & (trace.own_ns < end - start)
