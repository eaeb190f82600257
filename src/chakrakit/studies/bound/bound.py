"""What a plan needs at least: a step time that no simulation of it goes below, and its memory.

All micro-batches of a stage run the same rows, so one task of each kind tells all of them. Cells are
measured with computation as the machine has it and communication as if it were alone on the machine;
then they are put in the order of the pipeline's schedule, messages between stages included. What is left
out is only ever more time: waiting for links that others use, for stragglers, and for gradients' buckets
of earlier tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chakrakit.arrays import I64
from chakrakit.machines.device import WorkModel
from chakrakit.machines.fabric import Machine
from chakrakit.studies.bound.isolated_times import IsolatedTimes
from chakrakit.studies.bound.pipeline import pipeline_starts
from chakrakit.studies.bound.stage_kinds import StageKinds
from chakrakit.studies.bound.stage_power import StagePower
from chakrakit.studies.bound.task_rows import TaskRows
from chakrakit.trace.model import Graph
from chakrakit.workloads.description import Workload
from chakrakit.workloads.program import Layout, model_state, trace_of

CLOCK_SLACK = 0.98
"""A simulation takes from its first run how long devices wait, so its clock may be a little too high."""
Key = tuple[str, int]
"""A task's kind and chunk."""


@dataclass(frozen=True)
class Bound:
    """Times in picoseconds. `compute_ps` is summed over all ranks."""

    step_ps: int
    compute_ps: int
    memory_bytes: int


class Bounds:
    """Bounds of training plans on one machine."""

    def __init__(self, machine: Machine, work: WorkModel) -> None:
        self.machine, self.work, self.alone = machine, work, IsolatedTimes(machine)
        self._last: _Plan | None = None
        self.durations: dict[tuple[object, ...], int] = {}
        """Picoseconds of computations, by what they are; most plans share most of them."""

    def memory(self, workload: Workload) -> int:
        """Bytes that the fullest rank needs; the same as the dry run says."""
        return self._plan(workload).memory

    def of(self, workload: Workload) -> Bound:
        """The bound of a workload that can be."""
        return self._plan(workload).bound()

    def _plan(self, workload: Workload) -> _Plan:
        """Memory and time of a plan are mostly asked for one after the other."""
        if self._last is None or self._last.layout.workload is not workload:
            self._last = _Plan(workload, self)
        return self._last


class _Plan:
    def __init__(self, workload: Workload, bounds: Bounds) -> None:
        self.bounds, self.layout = bounds, Layout(workload)
        self.kinds = StageKinds(self.layout)

    @cached_property
    def rows(self) -> TaskRows:
        """The rows to be timed."""
        return TaskRows(self.layout, self.kinds.stages)

    # --- memory -------------------------------------------------------------------------------

    @cached_property
    def memory(self) -> int:
        """Bytes that the fullest rank needs."""
        return max(self._memory(s, kind) for s, kind in enumerate(self.kinds.of))

    def _memory(self, s: int, kind: int) -> int:
        """Cells hold and free the same in every micro-batch, so their sums are enough."""
        net, peak = self._holding[kind]
        tasks = [(c.kind, c.chunk) for c in self.kinds.tasks(s)]
        after = np.cumsum([net[c] for c in tasks])
        most = (after + np.array([peak[c] - net[c] for c in tasks])).max(initial=0)
        return int(most) + self._state[kind]

    @cached_property
    def _holding(self) -> list[tuple[dict[Key, int], dict[Key, int]]]:
        """For each kind of stage, what tasks leave held, and the most while they run."""
        found = []
        for stage in self.kinds.stages:
            net: dict[Key, int] = {}
            peak: dict[Key, int] = {}
            for key, template in stage.templates.items():
                alloc, free = template.columns["alloc"], template.columns["free"]
                held = np.cumsum(alloc - free)
                net[key] = int(held[-1]) if len(held) else 0
                peak[key] = int((held + free).max(initial=0))
            found.append((net, peak))
        return found

    @cached_property
    def _state(self) -> list[int]:
        return [sum(p.bytes for p in model_state(self.layout, s.held())) for s in self.kinds.stages]

    # --- time ---------------------------------------------------------------------------------

    def bound(self) -> Bound:
        weights = np.where(self.rows.is_compute, self._durations(), self._alone())
        step, (busy, compute) = self._step(weights), self._busy(weights)
        least = max(step, busy, self._crowded())
        limited = self._limited(weights, least)
        return Bound(max(least, limited), compute, self.memory)

    def _step(self, weights: I64) -> int:
        """Through the pipeline, given the picoseconds of each row; messages are the pipeline's own."""
        finish = self._finish(weights)
        starts = pipeline_starts(self.kinds, self.rows, self._spans(finish), self._message)
        tails = self._tails(finish)
        return max(start + tails[kind] for start, kind in zip(starts, self.kinds.of, strict=True))

    def _limited(self, weights: I64, step: int) -> int:
        """What the power limits of the devices add; 0 where nothing is known of their power.

        Whatever clocks the stages run at: a stage above the clock tried here needs the time in which its
        energy may be drawn, and with none above it the pipeline takes at least as long as tried here.
        """
        devices = self.bounds.machine.devices
        if len(devices) > 1 or devices[0].dynamic is None:
            return 0
        stretched, times = weights.copy(), []
        for kind in range(len(self.kinds.stages)):
            draw, least = self._power.clock(self.rows.counts(kind), step)
            times += [least] if draw.share < 1 else []
            for block in (b.rows for b in self.rows.blocks if b.stage == kind):
                rows = np.arange(block.start, block.stop)
                stretched[block] = self._power.longer(rows, weights[block], draw)
        return int(CLOCK_SLACK * min(self._step(stretched), *times)) if times else 0

    @cached_property
    def _power(self) -> StagePower:
        _, inverse = self.rows.distinct()
        first = np.unique(inverse, return_index=True)[1]
        trace = trace_of(self.rows.program(first), self.layout.book, {}, 0, "")
        return StagePower(trace, self.bounds.work, self.bounds.machine.devices[0], inverse)

    def _durations(self) -> I64:
        book = self.layout.book
        found, inverse = self.rows.distinct()
        keys = [
            (book.ops.texts[op], book.dtypes.texts[dtype], book.shapes.texts[shapes], *sizes)
            for op, dtype, shapes, *sizes in found.tolist()
        ]
        known = self.bounds.durations
        if any(key not in known for key in keys):
            first = np.unique(inverse, return_index=True)[1]
            trace = trace_of(self.rows.program(first), book, {}, 0, "")
            kinds = [self.bounds.work.costs(trace, d).ps for d in self.bounds.machine.devices]
            known |= dict(zip(keys, np.minimum.reduce(kinds).tolist(), strict=True))
        return np.array([known[key] for key in keys], np.int64)[inverse]

    def _alone(self) -> I64:
        out = np.zeros(len(self.rows), np.int64)
        for kind, size, role, rows in self.rows.collectives():
            out[rows] = self.bounds.alone.collective(kind, size, self.layout.mesh.members(role))
        return out

    def _finish(self, row_ps: I64) -> I64:
        """When each row ends, after the first computation of its segment began.

        Communication that no computation of the segment comes before may have begun earlier: it
        counts for nothing.
        """
        src, dst = self.rows.edges()
        graph = Graph(len(self.rows), src, dst)
        after, _ = graph.longest_path(self.rows.is_compute.astype(np.int64))
        weights = np.where(after > 0, row_ps, 0)
        finish, _ = graph.longest_path(weights)
        return finish

    def _spans(self, finish: I64) -> I64:
        """The time from the first computation to the last of each segment."""
        spans = np.zeros(3 * len(self.rows.blocks), np.int64)
        mine = np.flatnonzero(self.rows.is_compute)
        np.maximum.at(spans, self.rows.segment[mine], finish[mine])
        return spans

    def _tails(self, finish: I64) -> list[int]:
        """For each kind of stage, from the start of its last task to the end of its step."""
        return [
            int(finish[block.rows].max(initial=0)) for block in self.rows.blocks if block.is_tail
        ]

    def _busy(self, row_ps: I64) -> tuple[int, int]:
        """Work on the busiest stream of any stage, and computation over all ranks."""
        streams, most, total = self.rows.streams, 0, 0
        for kind in range(len(self.kinds.stages)):
            work = np.zeros(int(streams.max(initial=0)) + 1)
            compute = 0
            for block, times in self.rows.counts(kind):
                weights = times * row_ps[block]
                work += np.bincount(streams[block], weights, len(work))
                compute += int(weights[self.rows.is_compute[block]].sum())
            most = max(most, int(work[self.rows.ordered[: len(work)]].max(initial=0)))
            total += compute * self.kinds.ranks(kind)
        return most, total

    def _crowded(self) -> int:
        """The busiest link under all collectives of the first rank, whichever streams they are on."""
        mesh, times = self.layout.mesh, np.zeros(len(self.rows), np.int64)
        for block, count in self.rows.counts(self.kinds.of[0]):
            times[block] = count
        load = np.zeros(len(self.bounds.machine.links))
        for kind, size, role, rows in self.rows.collectives():
            members = mesh.members(role)[0]
            if times[rows].any() and mesh.first in members and len(members) > 1:
                load += times[rows].sum() * self.bounds.alone.load(kind, size, members)
        return int(load.max(initial=0))

    def _message(self, size: int, src: int, dst: int) -> int:
        ranks = self.layout.mesh.ranks_at(src)
        peers = self.layout.mesh.peers(ranks, f"pp:{dst}")
        return self.bounds.alone.message(size, ranks, peers)
