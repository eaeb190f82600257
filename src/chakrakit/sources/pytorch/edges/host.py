"""Order on host threads: which row calls which, which comes next, and the host's time in between."""

from __future__ import annotations

from copy import copy

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.sources.pytorch.calls import RecordedCollective
from chakrakit.sources.pytorch.edges.candidates import TOLERANCE_NS, Candidates, EdgeList
from chakrakit.sources.pytorch.read import Kineto
from chakrakit.sources.pytorch.timeline import Timeline, TimelineNames
from chakrakit.trace.model import EdgeForm, EdgeKind


class HostModel:
    """A host thread as one chain of rows in the order they started.

    Each row has at most one predecessor `before[row]` on its thread: its caller, if it is the first
    thing that one calls (a call edge, start→start), or else the last thing that ended before it (a
    thread edge, finish→start). The lag of that edge is the host's own time in between. `own_ns[row]` is
    the row's own time, without what runs inside it and without waiting. Code that
    knows what a row waited for takes the waiting out of `own_ns` and `lag` and adds an edge instead.
    """

    def __init__(self, line: Timeline) -> None:
        self.line = line
        self.own_ns = line.own_time()
        rows, before = line.thread_order()
        self.rows = rows
        self.before = np.full(len(line), -1, np.int64)
        self.before[rows] = before
        self.after = np.full(len(line), -1, np.int64)
        linked = rows[before >= 0]
        self.after[self.before[linked]] = linked
        self.is_call = np.zeros(len(line), np.bool_)
        self.is_call[linked] = line.parent[linked] == self.before[linked]
        self.lag = np.zeros(len(line), np.int64)
        self.lag[linked] = line.start[linked] - self._base(linked)
        self.recorded_lag = self.lag
        """The lags before recording's cost was taken out of them."""
        self.extra = EdgeList()
        self._by_thread: dict[int, I64] = {}

    def copy(self) -> HostModel:
        """A copy whose times can be changed without changing this one's."""
        duplicate = copy(self)
        duplicate.own_ns, duplicate.lag = self.own_ns.copy(), self.lag.copy()
        return duplicate

    def _base(self, rows: I64) -> I64:
        prior = self.before[rows]
        base: I64 = np.where(self.is_call[rows], self.line.start[prior], self.line.end[prior])
        return base

    def thread_rows(self, thread: int) -> I64:
        """Rows of one thread in order."""
        if thread not in self._by_thread:
            self._by_thread[thread] = self.rows[self.line.thread[self.rows] == thread]
        return self._by_thread[thread]

    def hand_over(self, caller_thread: int, worker_thread: int) -> int:
        """A worker that runs while its caller waits, as autograd's device thread does.

        Every stretch of the worker's work that fits between two neighbouring rows of the caller is
        called by the earlier and returns to the later one. Returns how many stretches there were.
        """
        line = self.line
        caller, worker = self.thread_rows(caller_thread), self.thread_rows(worker_thread)
        top = np.flatnonzero(line.parent[worker] < 0)
        if not len(caller) or not len(top):
            return 0
        at = np.searchsorted(line.start[caller], line.start[worker[top]], side="right") - 1
        first = np.flatnonzero(np.r_[True, at[1:] != at[:-1]] & (at >= 0))
        begin, last_top = top[first], top[np.r_[first[1:], len(top)] - 1]
        final = np.r_[top[first[1:]] - 1, len(worker) - 1] if len(first) else first
        stretches = (caller[at[first]], worker[begin], worker[last_top], worker[final])
        return self._hand_over(*stretches)

    def _hand_over(self, caller: I64, begin: I64, last: I64, final: I64) -> int:
        line = self.line
        resume = self.after[caller]
        fits = (resume < 0) | (line.end[last] <= line.start[resume] + TOLERANCE_NS)
        # A worker's first stretch is called too where its caller goes on beside it, as when autograd runs
        # a function of the CPU on the caller's own thread.
        first = ~fits & (self.before[begin] < 0)
        self._call(caller[first], begin[first], line.end[caller[first]] > line.start[begin[first]])
        caller, begin, last, final, resume = (a[fits] for a in (caller, begin, last, final, resume))
        inside = line.end[caller] > line.start[begin]
        self._call(caller, begin, inside)
        span = np.minimum(line.end[last], line.end[caller]) - line.start[begin]
        self.own_ns[caller[inside]] = np.maximum(self.own_ns[caller[inside]] - span[inside], 0)
        returns = resume >= 0
        self._resume(begin[returns], last[returns], final[returns], resume[returns])
        return len(begin)

    def _call(self, caller: I64, begin: I64, inside: Mask) -> None:
        """The worker begins inside the caller's row, or after it has ended."""
        start, end = self.line.start, self.line.end
        a, b = caller[inside], begin[inside]
        self.extra.add(EdgeKind.CALL, a, b, start[b] - start[a], EdgeForm.START_START)
        a, b = caller[~inside], begin[~inside]
        self.extra.add(EdgeKind.CALL, a, b, start[b] - end[a], EdgeForm.FINISH_START)
        self.lag[begin] = np.minimum(self.lag[begin], 0)

    def _resume(self, begin: I64, last: I64, final: I64, resume: I64) -> None:
        start, end = self.line.start, self.line.end
        back = start[resume] - end[final]
        self.extra.add(EdgeKind.SYNC, final, resume, back, EdgeForm.FINISH_START)
        waited = np.maximum(np.minimum(end[last], start[resume]) - start[begin], 0)
        outside = self.lag[resume] >= waited
        self.lag[resume[outside]] -= waited[outside]

    def wait_after(self, causes: I64, rows: I64) -> None:
        """Rows that could only start when their cause had ended: the gap before them was waiting."""
        start, end = self.line.start, self.line.end
        back = start[rows] - end[causes]
        self.extra.add(EdgeKind.SYNC, causes, rows, back, EdgeForm.FINISH_START)
        # The same row may wait for several; the host's own time is what remains after the last.
        np.minimum.at(self.lag, rows, np.maximum(back, 0))

    def wait_inside(self, causes: I64, rows: I64) -> None:
        """Rows that could only end when their cause had: all before it was waiting."""
        end = self.line.end
        rest = np.maximum(end[rows] - end[causes], 0)
        self.extra.add(EdgeKind.SYNC, causes, rows, rest, EdgeForm.FINISH_FINISH)
        np.minimum.at(self.own_ns, rows, rest)

    def edges(self) -> EdgeList:
        """Call and thread edges with their lags, and what was added for waiting."""
        rows = self.rows[self.before[self.rows] >= 0]
        called = self.is_call[rows]
        out = EdgeList(list(self.extra.parts))
        for kind, form, targets in (
            (EdgeKind.CALL, EdgeForm.START_START, rows[called]),
            (EdgeKind.THREAD, EdgeForm.FINISH_START, rows[~called]),
        ):
            out.add(kind, self.before[targets], targets, self.lag[targets], form)
        return out


# Communication that runs beside its caller on the host: gloo, MPI, UCC.
_WAIT_NS = 20_000
"""A gap in which communication ended counts as waiting for it if it was open this long before."""
_PICKED_UP_NS = 50_000
"""An idle worker takes up what was issued within this; a longer delay means that it was busy."""


def add_asynchronous(
    line: Timeline,
    names: TimelineNames,
    kineto: Kineto | None,
    collectives: list[RecordedCollective],
    host: HostModel,
    causes: Candidates,
) -> int:
    """Launch edges from issuer to communication, and edges to those who waited for it.

    Returns how many waits were seen. A wait is not always recorded: an operator that says so, or a
    gap in the issuing thread in which the communication ended.
    """
    pairs = [
        (c.issuer, c.row)
        for c in collectives
        if line.is_host[c.row] and c.row != c.issuer and _runs_beside(line, c)
    ]
    if not pairs:
        return 0
    issuer, row = np.array(pairs, np.int64).T
    first, last = _parts(line, host, kineto, row)
    _launch(line, host, causes, issuer, first)
    waits = zip(issuer.tolist(), last.tolist(), strict=True)
    return sum(_add_wait(line, names, host, i, r) for i, r in waits)


def _parts(line: Timeline, host: HostModel, kineto: Kineto | None, rows: I64) -> tuple[I64, I64]:
    """The first and last row that a worker runs for each communication: copies from and to a device."""
    first, last = rows.copy(), rows.copy()
    for i, row in enumerate(rows.tolist()):
        if kineto is None or line.event[row] < 0 or line.astray[row]:
            continue
        begin, end = (int(t[line.event[row]]) for t in (kineto.start, kineto.end))
        mine = host.thread_rows(int(line.thread[row]))
        inside = mine[(line.start[mine] >= begin) & (line.end[mine] <= end)]
        if len(inside):
            first[i], last[i] = inside[0], inside[-1]
    return first, last


def _launch(line: Timeline, host: HostModel, causes: Candidates, issuer: I64, first: I64) -> None:
    """Add launch edges: binding ones to what an idle worker took up at once, others to what began later."""
    before = host.before[first]
    follows = before >= 0
    idle = ~follows | (line.end[before] <= line.start[issuer] + _PICKED_UP_NS)
    causes.add(EdgeKind.LAUNCH, EdgeForm.START_START, issuer[idle], first[idle], _PICKED_UP_NS)
    released = first[idle & follows]
    # A worker that was idle when work was issued did not need that idle time itself.
    host.lag[released] = np.minimum(host.lag[released], 0)
    slack = line.start[first[~idle]] - line.start[issuer[~idle]]
    lag = np.minimum(slack, _PICKED_UP_NS)
    host.extra.add(EdgeKind.LAUNCH, issuer[~idle], first[~idle], lag, EdgeForm.START_START)


def _runs_beside(line: Timeline, c: RecordedCollective) -> bool:
    return bool(line.thread[c.row] != line.thread[c.issuer] or line.astray[c.row])


def _add_wait(line: Timeline, names: TimelineNames, host: HostModel, issuer: int, row: int) -> bool:
    rows = host.thread_rows(int(line.thread[issuer]))
    place = int(np.searchsorted(line.start[rows], line.end[row]))
    before = int(rows[place - 1]) if place else -1
    after = int(rows[place]) if place < len(rows) else -1
    inside = before >= 0 and line.end[before] >= line.end[row] and not line.astray[before]
    if inside and "wait" in names[before] and line.start[before] > line.start[issuer]:
        host.wait_inside(np.array([row]), np.array([before]))
        return True
    if after < 0 or line.start[after] <= line.start[issuer]:
        return False
    base = int(line.start[before] if host.is_call[after] else line.end[before])
    if host.before[after] != before or base + _WAIT_NS > line.end[row]:
        return False
    host.wait_after(np.array([row]), np.array([after]))
    return True
