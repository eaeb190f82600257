"""Which row runs inside which, and in which step: derived here for traces whose nodes do not say it.

`Trace.parent` and `Trace.step` are what every room asks; they read the columns `parent` and `step` where
there are any. The rules in this module are for the sources, which make traces from a recording's times, and
for files that other tools wrote.
"""

from __future__ import annotations

import numpy as np

import chakrakit.core as core
from chakrakit.arrays import I32, I64, U64, Mask
from chakrakit.errors import TraceError
from chakrakit.trace.model.edges import EdgeForm, EdgeKind, Edges, resolve

# Steps: found where the same work repeats.

_REPEATING_SHARE = 0.95
"""The share of names that must come again one period later: steps differ a little in what they log."""
_TRIED_NAMES = 32
"""Names whose gaps are tried as periods, the rarest first; each costs a pass over all rows."""


def repeating_steps(name: I32, start: I64, works: Mask) -> I64:
    """The step of each row that works, by names in order of start; -1 for others and where none repeats."""
    number = np.full(len(name), -1, np.int64)
    rows = np.flatnonzero(works)
    rows = rows[np.argsort(start[rows], kind="stable")]
    period = repeating_period(name[rows])
    if period:
        number[rows] = np.arange(len(rows)) // period
    return number


def filled(number: I64, start: I64, thread: I64, among: Mask) -> I64:
    """The steps, with rows that have none given the next one on their thread, or else the last."""
    number, rows = number.copy(), np.flatnonzero(among)
    for thread_id in np.unique(thread[rows]).tolist():
        thread_rows = rows[thread[rows] == thread_id]
        thread_rows = thread_rows[np.argsort(start[thread_rows], kind="stable")]
        numbered = np.flatnonzero(number[thread_rows] >= 0)
        if len(numbered):
            after = np.minimum(
                np.searchsorted(numbered, np.arange(len(thread_rows))), len(numbered) - 1
            )
            number[thread_rows] = number[thread_rows[numbered[after]]]
    return number


def repeating_period(codes: I32) -> int:
    """After how many rows names repeat, 0 if they do not; the gaps between rare names are tried."""
    values, counts = np.unique(codes, return_counts=True)
    again = counts >= 2
    rare = values[again][np.argsort(counts[again], kind="stable")][:_TRIED_NAMES]
    tried: set[int] = set()
    for value in rare.tolist():
        gaps = np.diff(np.flatnonzero(codes == value))
        tried.add(int(np.median(gaps)))
    for period in sorted(tried):
        # Shorter than that, and a loop inside a step would pass for the step.
        if (
            4 <= period <= len(codes) // 2
            and (codes[period:] == codes[:-period]).mean() >= _REPEATING_SHARE
        ):
            return period
    return 0


SLACK_NS = 10_000
"""By how much a row may end after the one it runs inside of before it counts as asynchronous.

Recorders round times to 1 µs, and read the clocks of host and driver one after the other. In 414,000 nested
rows of 60 recordings, no row ended later than its caller by anything between 0 and 100 µs, and all that ended
later still were asynchronous sends and receives: a figure between these two separates them.
"""


def nested(thread: I64 | I32, start: I64, end: I64) -> tuple[I64, Mask]:
    """For each row the innermost row around it on its thread (-1: none), and whether it outlives that one.

    A row that outlives the one it began in by more than `SLACK_NS` is asynchronous: it has that parent,
    but nothing that runs meanwhile is taken to be inside of it.
    """
    order = _by_thread(thread, start, end)
    ordered = thread[order]
    number = np.cumsum(np.r_[False, ordered[1:] != ordered[:-1]][: len(order)], dtype=np.int32)
    outer, loose = core.nest(number, start[order], end[order], SLACK_NS)
    parent = np.full(len(thread), -1, np.int64)
    inside = outer >= 0
    parent[order[inside]] = order[outer[inside]]
    outlives = np.zeros(len(thread), np.bool_)
    outlives[order] = loose
    return parent, outlives


def _by_thread(thread: I64 | I32, start: I64, end: I64) -> I64:
    """Rows by thread, then by start, longer ones first. Recorders mostly write in the order of starts."""
    rises = start[1:] > start[:-1]
    if (rises | ((start[1:] == start[:-1]) & (end[1:] <= end[:-1]))).all():
        return np.argsort(thread, kind="stable")
    return np.lexsort((-end, start, thread))


def parents_by_time(thread: I64, start: I64, end: I64, among: Mask) -> I32:
    """The parent of each of some rows, from their times on their threads."""
    parent = np.full(len(among), -1, np.int32)
    rows = np.flatnonzero(among)
    outer, _ = nested(thread[rows], start[rows], end[rows])
    inside = outer >= 0
    parent[rows[inside]] = rows[outer[inside]]
    return parent


def parents_by_calls(edges: Edges, among: Mask) -> I32:
    """The parent of each of some rows that have no times: the row from which a call edge leads to it."""
    parent = np.full(len(among), -1, np.int32)
    calls = (edges.kind == EdgeKind.CALL) & (edges.form == EdgeForm.START_START)
    calls &= among[edges.src] & among[edges.dst]
    parent[edges.dst[calls]] = edges.src[calls]
    return without_circles(parent)


def parents_by_id(ids: U64, parent_ids: U64, has_parent: Mask) -> I32:
    """The row of each row's parent, which nodes name by its id; -1 for none and for one that is not there."""
    parent = np.full(len(ids), -1, np.int32)
    parent[has_parent] = resolve(ids, parent_ids[has_parent])
    return without_circles(parent, ids)


def without_circles(parent: I32, ids: U64 | None = None) -> I32:
    """The parents unchanged; a TraceError if rows run inside each other in a circle."""
    rows = np.arange(len(parent))
    if (parent < rows).all():
        return parent
    at = parent
    for _ in range(len(parent).bit_length()):  # every round looks twice as far outwards
        at = np.where(at >= 0, at[at], -1)
    caught = np.flatnonzero(at >= 0)
    if len(caught):
        node_id = caught[0] if ids is None else ids[caught[0]]
        raise TraceError(
            f"node {node_id} runs inside itself, as `parent` or calls of {len(caught):,} nodes say; "
            "remove that attribute, and times tell what runs inside what"
        )
    return parent


def nearest_kept(parent: I32, is_kept: Mask) -> I32:
    """For each row the nearest row around it that is kept; -1 for none."""
    outer = parent.copy()
    open_rows = np.flatnonzero((outer >= 0) & ~is_kept[outer])
    while len(open_rows):
        outer[open_rows] = outer[outer[open_rows]]
        open_rows = open_rows[outer[open_rows] >= 0]
        open_rows = open_rows[~is_kept[outer[open_rows]]]
    return outer


def depth_of(parent: I32) -> I32:
    """How many rows are around each; every round looks twice as far outwards, however deep they are."""
    depth, above = (parent >= 0).astype(np.int32), parent
    while (inside := above >= 0).any():
        depth += np.where(inside, depth[above], 0)
        above = np.where(inside, above[above], -1)
    return depth
