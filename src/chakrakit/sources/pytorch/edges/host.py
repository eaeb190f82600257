"""Order on host threads: who calls whom, who comes next, and how long the host itself needs."""

from __future__ import annotations

from copy import copy

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.sources.pytorch.edges.candidates import TOLERANCE_NS, EdgeList
from chakrakit.sources.pytorch.match import Timeline
from chakrakit.trace.model import EdgeForm, EdgeKind


class HostModel:
    """A host thread as one chain of rows in the order they started.

    Each row has at most one predecessor `before[row]` on its thread: its caller, if it is the first
    thing that one calls (a call edge, start→start), or else the last thing that ended before it (a
    thread edge, finish→start). The lag of that edge is the host's own time in between. `own[row]` is
    the row's own time, without what runs inside it and without waiting. Waiting is taken out of
    `own` and `lag` by those who know what was waited for, and comes back through their edges.
    """

    def __init__(self, line: Timeline) -> None:
        self.line = line
        self.own = line.own_time()
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
        """The same with times of its own to change."""
        other = copy(self)
        other.own, other.lag = self.own.copy(), self.lag.copy()
        return other

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
        caller, begin, last, final, resume = (a[fits] for a in (caller, begin, last, final, resume))
        inside = line.end[caller] > line.start[begin]
        self._call(caller, begin, inside)
        span = np.minimum(line.end[last], line.end[caller]) - line.start[begin]
        self.own[caller[inside]] = np.maximum(self.own[caller[inside]] - span[inside], 0)
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
        np.minimum.at(self.own, rows, rest)

    def edges(self) -> EdgeList:
        """Call and thread edges with their lags, and what was added for waiting."""
        rows = self.rows[self.before[self.rows] >= 0]
        called = self.is_call[rows]
        out = EdgeList(list(self.extra.parts))
        for kind, form, chosen in (
            (EdgeKind.CALL, EdgeForm.START_START, rows[called]),
            (EdgeKind.THREAD, EdgeForm.FINISH_START, rows[~called]),
        ):
            out.add(kind, self.before[chosen], chosen, self.lag[chosen], form)
        return out
