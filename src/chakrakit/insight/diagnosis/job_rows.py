"""A pipeline-parallel job's operations of all ranks and steps as one graph that can be timed again.

Every operation has a row. A communication has two more: its group, which starts when the last member is
ready, and its own end, which comes its transfer time after that. The transfer time of a communication is
its end less the latest start in its group, so that waiting for a peer is not part of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chakrakit.arrays import F64, I64, Mask
from chakrakit.insight.communication import Matched, match_calls
from chakrakit.insight.rank import rank_views
from chakrakit.trace.model import EdgeForm, EdgeKind, Edges, NodeType
from chakrakit.trace.sets import Run
from chakrakit.trace.timing import schedule


def is_job(run: Run) -> bool:
    """Whether a run says of every operation its step, stage and replica."""
    if not run.ranks:
        return False
    known = set(run.body(run.ranks[0]).table.column_names)
    return {"step", "stage", "dp_rank"} <= known


@dataclass(frozen=True, eq=False)
class JobRows:
    """One entry per operation, ranks one after another; times in nanoseconds."""

    rank: I64
    stage: I64
    dp_rank: I64
    step: I64
    """The number of the step, from 0, in the order of `steps`."""
    steps: list[int]
    """What the steps are called."""
    start: I64
    end: I64
    name: I64
    names: list[str]
    is_comm: Mask
    micro_batch: I64
    group: I64
    """The group a communication meets; -1 for other operations."""
    edges: Edges
    """Dependencies within the ranks."""

    def __len__(self) -> int:
        return len(self.rank)

    @cached_property
    def own(self) -> I64:
        """What each operation takes by itself: its duration, or its transfer time."""
        out = self.end - self.start
        calls = np.flatnonzero(self.group >= 0)
        if len(calls):
            latest = np.full(int(self.group.max()) + 1, np.iinfo(np.int64).min)
            np.maximum.at(latest, self.group[calls], self.start[calls])
            out[calls] = np.maximum(self.end[calls] - latest[self.group[calls]], 0)
        return out

    @cached_property
    def _done(self) -> I64:
        """The row that ends with each operation."""
        groups = int(self.group.max(initial=-1)) + 1
        calls = np.cumsum(self.group >= 0) - 1
        return np.where(self.group >= 0, len(self) + groups + calls, np.arange(len(self)))

    @cached_property
    def _graph(self) -> tuple[int, Edges]:
        calls = np.flatnonzero(self.group >= 0)
        meeting = len(self) + self.group[calls]
        src = np.concatenate([self._done[self.edges.src], calls, meeting])
        dst = np.concatenate([self.edges.dst, meeting, self._done[calls]])
        rows = len(self) + int(self.group.max(initial=-1)) + 1 + len(calls)
        return rows, Edges.of(src, dst, EdgeKind.INFERRED, EdgeForm.FINISH_START)

    def step_seconds(self, own: I64) -> F64:
        """How long each step takes when its operations take so long and wait for nothing else."""
        rows, edges = self._graph
        durations = np.zeros(rows, np.int64)
        durations[self._done] = own
        end = schedule(rows, edges, durations).end[self._done]
        return last_of(self.step, end, len(self.steps)) / 1e9

    @cached_property
    def measured(self) -> F64:
        """How long each step took."""
        first = -last_of(self.step, -self.start, len(self.steps))
        return (last_of(self.step, self.end, len(self.steps)) - first) / 1e9


def last_of(which: I64, values: I64, count: int) -> I64:
    """The largest value of each kind."""
    out = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(out, which, values)
    return out


def job_rows(run: Run) -> JobRows:
    """All ranks' operations; the run must be one that `is_job`."""
    views = list(rank_views(run))
    traces = [view.trace for view in views]
    sizes = [len(trace) for trace in traces]
    offset = dict(zip(run.ranks, np.r_[0, np.cumsum(sizes)].tolist(), strict=False))

    def joined(name: str, default: int) -> I64:
        return np.concatenate([t.column(name, default).astype(np.int64) for t in traces])

    names: dict[str, int] = {}
    codes = [names.setdefault(n, len(names)) for t in traces for n in t.names.to_pylist()]
    steps, step = np.unique(joined("step", -1), return_inverse=True)
    matched = match_calls(run)
    types = np.concatenate([t.types for t in traces])
    edges = [
        Edges.of(t.edges.src + o, t.edges.dst + o, EdgeKind.INFERRED, EdgeForm.FINISH_START)
        for t, o in zip(traces, offset.values(), strict=True)
    ]
    return JobRows(
        rank=np.repeat(np.array(run.ranks, np.int64), sizes),
        stage=joined("stage", 0),
        dp_rank=joined("dp_rank", 0),
        step=step.reshape(-1).astype(np.int64),
        steps=[int(s) for s in steps],
        start=np.concatenate([v.start for v in views]),
        end=np.concatenate([v.end for v in views]),
        name=np.array(codes, np.int64),
        names=list(names),
        is_comm=types != NodeType.COMP_NODE,
        micro_batch=joined("micro_batch", -1),
        group=_meetings(matched, offset, sum(sizes)),
        edges=Edges.concat(edges),
    )


def _meetings(matched: Matched, offset: dict[int, int], rows: int) -> I64:
    """A number for every collective and every pair of messages; an end without another is alone."""
    ranks, which = np.unique(matched.rank, return_inverse=True)
    first = np.array([offset[r] for r in ranks.tolist()], np.int64)
    row = first[which.reshape(-1)] + matched.row
    calls = np.arange(len(matched))
    key = np.where(matched.collective, -1 - matched.instance, calls)
    key = np.where(matched.paired, np.minimum(calls, matched.partner), key)
    out = np.full(rows, -1, np.int64)
    out[row] = np.unique(key, return_inverse=True)[1].reshape(-1)
    return out
