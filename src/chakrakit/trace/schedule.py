"""When everything runs: edges, durations and resources in; start, end and what each waited for out.

This is the one scheduler: whoever needs times for a graph without a network model asks it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chakrakit import _core
from chakrakit.errors import DeadlockError, TraceError
from chakrakit.trace.edges import (
    MAX_ROWS,
    Codes,
    EdgeKind,
    Edges,
    Rows,
    Scalar,
    Times,
    check_range,
    column,
)

_SHOWN = 6


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


@dataclass(frozen=True, eq=False)
class Schedule:
    """Times of every row in ns, and the constraint that set each of them.

    `binding` is the row waited for last before the start, `edge` the edge that made it wait,
    `reason` a code of Reason; the same for the end. -1 stands for no row and no edge: a RESOURCE
    or QUEUE has a row and no edge, NONE and OWN have neither. Following `end_binding` (or, where
    the end is its OWN, `binding`) from the row that ends last walks the critical path.
    """

    start: Times
    end: Times
    binding: Rows
    edge: Rows
    reason: Codes
    end_binding: Rows
    end_edge: Rows
    end_reason: Codes

    @property
    def makespan(self) -> int:
        """Time from the first start to the last end; 0 without rows."""
        return int(self.end.max()) - int(self.start.min()) if len(self) else 0

    def __len__(self) -> int:
        return len(self.start)


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

    n            rows; every array below but those in `edges` has one entry a row
    durations    ns, not negative
    resource     what the row runs on, one row at a time; -1 for nothing. Any numbers do
    order        rows of a resource run in ascending order of this key (default: the row), equal
                 keys by row
    release      earliest start, default 0
    queue_depth  D > 0: the launcher of the k-th launched kernel of a resource cannot end before
                 the (k-D)-th has started; 0 for queues without end
    launch_of    the row that launched this kernel, or -1; counts for rows with a resource

    The latest constraint binds. On equal times: an end's own duration, then the edge with the
    lowest number, then the resource or the queue (lowest kernel row), then the release. Lags may
    be negative (a lead: the target may go that much before the source); a row still starts no
    earlier than its release, nor ends before its own duration is over.

    Each row has two events, start and end, so a caller may hold its callee back (start→start) and
    be held by it (finish→finish). Linear in rows and edges, but for sorting rows by `order` where
    they are not sorted yet. Raises DeadlockError when events wait for each other in a circle,
    TraceError when an array does not fit or a time leaves 64 bits.
    """
    _check_size(n, edges, queue_depth)
    work = _per_row(n, durations, np.int64, "durations")
    check_range(work, 0, 2**63, "durations", "a duration cannot be negative")
    lanes = _resources(n, resource)
    launchers = _per_row(n, launch_of, np.int32, "launch_of")
    check_range(launchers, -1, n, "launch_of", "give the launcher's row, or -1 for none")
    keys = _per_row(n, order, np.int64, "order")
    earliest = _per_row(n, release, np.int64, "release")
    ends = (np.ascontiguousarray(a) for a in (edges.src, edges.dst, edges.form, edges.lag))
    try:
        start, end, circle = _core.schedule_solve(
            *ends, work, lanes, keys, earliest, launchers, queue_depth
        )
    except OverflowError as error:
        raise TraceError(f"{error}; check durations, lags and release, which are in ns") from None
    if len(circle[0]):
        raise DeadlockError(_deadlock_text(_waits(*circle), edges, resource))
    return Schedule(*start, *end)


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


def _per_row(
    n: int, values: ArrayLike | None, dtype: type[Scalar], name: str
) -> NDArray[Scalar]:
    """The values checked; nothing at all, which the core takes for the default, where None."""
    if values is None:
        return np.empty(0, dtype)
    array = column(values, dtype, name)
    if len(array) != n:
        raise TraceError(f"{name} has {len(array):,} entries for {n:,} rows; give one a row")
    return array


def _resources(n: int, resource: ArrayLike | None) -> Rows:
    array = _per_row(n, resource, np.int64, "resource")
    check_range(array, -1, 2**63, "resource", "number resources from 0, or -1 for none")
    if array.size and array.max() >= n:  # sparse numbers would cost memory: make them dense
        used, dense = np.unique(array, return_inverse=True)
        array = dense - int(used[0] == -1)
    return array.astype(np.int32)


class _Wait(NamedTuple):
    """An event of a circular wait, and why it waits for the next one of the circle."""

    row: int
    at_end: bool
    reason: Reason
    edge: int


def _waits(events: Times, reasons: Codes, edges: Rows) -> list[_Wait]:
    return [
        _Wait(event >> 1, bool(event & 1), Reason(reason), edge)
        for event, reason, edge in zip(
            events.tolist(), reasons.tolist(), edges.tolist(), strict=True
        )
    ]


_CURES = {
    Reason.DEPENDENCY: "remove one of these edges",
    Reason.RESOURCE: "change the order on the resource",
    Reason.QUEUE: "raise queue_depth",
}


def _deadlock_text(circle: list[_Wait], edges: Edges, resource: ArrayLike | None) -> str:
    pairs = zip(circle, circle[1:] + circle[:1], strict=True)
    # That a row ends after it starts needs no saying.
    clauses = [(w, on) for w, on in pairs if w.reason is not Reason.OWN]
    shown = [_clause(wait, on, edges, resource) for wait, on in clauses[:_SHOWN]]
    if len(clauses) > _SHOWN:
        shown.append(f"and {len(clauses) - _SHOWN:,} more")
    rows = len({wait.row for wait in circle})
    who = f"{rows:,} rows wait for each other" if rows > 1 else "a row waits for itself"
    seen = Counter(wait.reason for wait, _ in clauses)
    cure = " or ".join(text for reason, text in _CURES.items() if seen[reason])
    return f"{who} and can never run: {'; '.join(shown)}. To go on, {cure}"


def _clause(wait: _Wait, on: _Wait, edges: Edges, resource: ArrayLike | None) -> str:
    if wait.reason is Reason.DEPENDENCY:
        why = f"{EdgeKind(edges.kind[wait.edge]).name.lower()} edge {wait.edge}"
    elif wait.reason is Reason.RESOURCE:
        why = f"order on resource {np.asarray(resource)[wait.row]}"
    else:
        why = "launch queue full"
    verb, event = "end" if wait.at_end else "start", "ends" if on.at_end else "starts"
    return f"row {wait.row} cannot {verb} before row {on.row} {event} ({why})"
