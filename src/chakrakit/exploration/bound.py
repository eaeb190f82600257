"""What a plan needs at least: a step time that no simulation of it goes below, and its memory.

All micro-batches of a stage run the same rows, so one task of each kind stands for all of them. Tasks are
measured with computation as the machine has it and communication as if it were alone on the machine;
then they are put in the order of the pipeline's schedule, messages between stages included. What is left
out is only ever more time: waiting for links that others use, for stragglers, and for gradients' buckets
of earlier tasks, and computing beside communication, which slows it down.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.exploration.pipeline_bound import StageKinds, pipeline_starts
from chakrakit.exploration.task_rows import BlockRows
from chakrakit.machines.device import (
    COMPUTED,
    PICO,
    Activity,
    Device,
    Draw,
    WorkModel,
    activity_of,
    clock_within,
)
from chakrakit.machines.fabric import Machine
from chakrakit.simulator.collectives import GroupShape, shapes
from chakrakit.simulator.engine import SimulationOptions, one_collective, run, whole_groups
from chakrakit.trace.model import Graph, Trace
from chakrakit.workloads.description import Workload
from chakrakit.workloads.program import (
    StayingTasks,
    WorkloadLayout,
    model_state,
    trace_of,
    without_staying,
)

# --- communication alone on the machine: no run has it shorter ----------------------------------


class _IsolatedTime(NamedTuple):
    time_ps: int
    busy_ps: F64


class IsolatedTimes:
    """Times of communication alone on the machine, simulated once per kind, size and placement of a group.

    Members, sources and targets are devices.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._runs: dict[tuple[int, int, tuple[int, ...]], _IsolatedTime] = {}
        self._firsts: dict[bytes, list[tuple[int, ...]]] = {}

    def collective(self, kind: int, size: int, groups: Sequence[Sequence[int]]) -> int:
        """Picoseconds on whichever of these equally large groups is quickest."""
        if len(groups[0]) < 2:
            return 0
        return min(self._run(kind, size, m).time_ps for m in self._distinct(groups))

    def load(self, kind: int, size: int, members: Sequence[int]) -> F64:
        """Picoseconds that each link of the machine is busy with it at full rate."""
        return self._run(kind, size, tuple(members)).busy_ps

    def _run(self, kind: int, size: int, members: tuple[int, ...]) -> _IsolatedTime:
        key = (kind, size, members)
        if key not in self._runs:
            alone = one_collective(kind, size, range(len(members)))
            outcome = run(alone, self._machine, SimulationOptions(placement=members))
            busy = outcome.link_bytes / self._machine.links.bandwidth * 1e12
            self._runs[key] = _IsolatedTime(outcome.makespan_ps, busy)
        return self._runs[key]

    def _distinct(self, groups: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
        """The first group of each shape."""
        members = np.array(groups, np.int64)
        key = members.tobytes() + bytes(str(members.shape), "ascii")
        if key not in self._firsts:
            first: dict[GroupShape, tuple[int, ...]] = {}
            for shape, group in zip(shapes(self._machine, members), groups, strict=True):
                first.setdefault(shape, tuple(group))
            self._firsts[key] = list(first.values())
        return self._firsts[key]

    def message(self, size: int, src: I64, dst: I64) -> int:
        """Picoseconds of a message on the quickest of some routes."""
        routes = self._machine.routes(src, dst)
        links = self._machine.links
        seconds = routes.latency(links) + size / routes.bandwidth(links)
        return int(seconds.min() * 1e12)


# --- power limits -------------------------------------------------------------------------------


class StagePower:
    """What a power limit does to the rows of a plan; row i costs what row `kind_of[i]` of `trace` costs."""

    def __init__(self, trace: Trace, work: WorkModel, device: Device, kind_of: I64) -> None:
        assert device.dynamic is not None
        costs = work.costs(trace, device)
        self._device, self._constants, self._kind_of = device, device.dynamic, kind_of
        seconds = costs.ps.astype(np.float64) * PICO
        self._activity = activity_of(trace, device, device.dynamic, seconds, costs.profiled)
        computed = np.isin(costs.source, COMPUTED)
        self._limited = computed & (self._activity.seconds > 0)

    def clock(self, counts: Iterable[tuple[slice, int]], step_ps: int) -> tuple[Draw, int]:
        """Returns the clock that the limit allows in such a step, and the least time its energy takes."""
        rows, times = _spread(counts)
        work = self._times(self._kind_of[rows], times)
        waits = max(0.0, step_ps * PICO - float(work.seconds.sum()))
        idle, limit = self._device.idle_power, self._device.power
        draw = clock_within(self._constants, work, idle, limit, waits)
        spare = max(limit * self._constants.limit_share - idle - draw.clock_watts, PICO)
        return draw, int(float(draw.joules(work).sum()) / spare / PICO)

    def longer(self, rows: I64, row_ps: I64, draw: Draw) -> I64:
        """Returns what these rows take at a lower clock, from what they take at the highest."""
        kinds = self._kind_of[rows]
        stretched = row_ps * draw.stretch(self._times(kinds, np.ones(len(kinds))))
        return np.where(self._limited[kinds], np.rint(stretched).astype(np.int64), row_ps)

    def _times(self, kinds: I64, times: F64) -> Activity:
        """Rows of these kinds, each as often as it runs."""
        a, often = self._activity, times * self._limited[kinds]
        return Activity(
            seconds=a.seconds[kinds] * often,
            chip_joules=a.chip_joules[kinds] * often,
            memory_joules=a.memory_joules[kinds] * often,
            at_memory=a.at_memory[kinds],
            at_chip=a.at_chip[kinds],
            timed_one_by_one=a.timed_one_by_one[kinds],
        )


def _spread(counts: Iterable[tuple[slice, int]]) -> tuple[I64, F64]:
    """Rows, and how often each runs."""
    parts = [(np.arange(block.start, block.stop), times) for block, times in counts]
    rows = np.concatenate([r for r, _ in parts]).astype(np.int64)
    return rows, np.concatenate([np.full(len(r), float(t)) for r, t in parts])


CLOCK_SLACK = 0.98
"""The bound is lowered by 2 %, because a simulation estimates waiting times from its first run and may
therefore use a slightly higher clock."""
Key = tuple[str, int, bool]
"""A task's kind and chunk, and whether it gathers or lets go what stays between."""


@dataclass(frozen=True)
class PlanBound:
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

    def of(self, workload: Workload) -> PlanBound:
        """Returns the bound of a feasible workload."""
        return self._plan(workload).bound()

    def _plan(self, workload: Workload) -> _Plan:
        """Memory and time of a plan are mostly asked for one after the other."""
        if self._last is None or self._last.layout.workload is not workload:
            self._last = _Plan(workload, self)
        return self._last


class _Plan:
    def __init__(self, workload: Workload, bounds: Bounds) -> None:
        self.bounds, self.layout = bounds, WorkloadLayout(workload)
        self.kinds = StageKinds(self.layout)
        world = workload.plan.world
        self.device_of = whole_groups(np.arange(world), world, bounds.machine)

    @cached_property
    def rows(self) -> BlockRows:
        """The rows to be timed."""
        return BlockRows(self.layout, self.kinds.stages)

    # --- memory -------------------------------------------------------------------------------

    @cached_property
    def memory(self) -> int:
        """Bytes that the fullest rank needs."""
        return max(self._memory(s, kind) for s, kind in enumerate(self.kinds.of))

    def _memory(self, s: int, kind: int) -> int:
        """Returns the bytes a stage needs.

        Tasks allocate and free the same in every micro-batch, but for parameters that stay gathered.
        """
        net, peak = self._holding[kind]
        own = self.kinds.tasks(s)
        staying = StayingTasks.of(own, [0] * len(own))
        ends = {"F": staying.gathers, "W": staying.is_last_weight}
        tasks = [
            (c.kind, c.chunk, bool(ends.get(c.kind, staying.is_last)[i])) for i, c in enumerate(own)
        ]
        after = np.cumsum([net[c] for c in tasks])
        most = (after + np.array([peak[c] - net[c] for c in tasks])).max(initial=0)
        return int(most) + self._state[kind]

    @cached_property
    def _holding(self) -> list[tuple[dict[Key, int], dict[Key, int]]]:
        """For each kind of stage, what tasks leave held, and the most while they run."""
        holding = []
        for stage in self.kinds.stages:
            net: dict[Key, int] = {}
            peak: dict[Key, int] = {}
            for (name, chunk), template in stage.templates.items():
                columns = template.columns
                whole = (columns["alloc"], columns["free"])
                for end, (alloc, free) in ((True, whole), (False, without_staying(columns))):
                    held_bytes, key = np.cumsum(alloc - free), (name, chunk, end)
                    net[key] = int(held_bytes[-1]) if len(held_bytes) else 0
                    peak[key] = int((held_bytes + free).max(initial=0))
            holding.append((net, peak))
        return holding

    @cached_property
    def _state(self) -> list[int]:
        return [
            sum(p.bytes for p in model_state(self.layout, s.held_weights()))
            for s in self.kinds.stages
        ]

    # --- time ---------------------------------------------------------------------------------

    def bound(self) -> PlanBound:
        weights = np.where(self.rows.is_compute, self._durations(), self._alone())
        step, (busy, compute) = self._step(weights), self._busy(weights)
        least = max(step, busy, self._crowded())
        limited = self._limited(weights, least)
        return PlanBound(max(least, limited), compute, self.memory)

    def _step(self, weights: I64) -> int:
        """Through the pipeline, given the picoseconds of each row; messages are the pipeline's own."""
        finish = self._finish(weights)
        starts = pipeline_starts(self.kinds, self.rows, self._spans(finish), self._message)
        tails = self._tails(finish)
        return max(start + tails[kind] for start, kind in zip(starts, self.kinds.of, strict=True))

    def _limited(self, weights: I64, step: int) -> int:
        """Returns the step's bound under power limits; 0 where the devices' power is unknown.

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
        operations, inverse = self.rows.distinct()
        keys = [
            (
                book.names.texts[name],
                book.ops.texts[op],
                book.dtypes.texts[dtype],
                book.shapes.texts[shapes],
                *rest,
            )
            for name, op, dtype, shapes, *rest in operations.tolist()
        ]
        duration_of = self.bounds.durations
        if any(key not in duration_of for key in keys):
            first = np.unique(inverse, return_index=True)[1]
            trace = trace_of(self.rows.program(first), book, {}, 0, "")
            kinds = [self.bounds.work.costs(trace, d).ps for d in self.bounds.machine.devices]
            duration_of |= dict(zip(keys, np.minimum.reduce(kinds).tolist(), strict=True))
        return np.array([duration_of[key] for key in keys], np.int64)[inverse]

    def _alone(self) -> I64:
        out = np.zeros(len(self.rows), np.int64)
        for kind, size, role, rows in self.rows.collectives():
            groups = self.device_of[np.array(self.layout.mesh.members(role))]
            out[rows] = self.bounds.alone.collective(kind, size, groups.tolist())
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
                devices = self.device_of[np.array(members)].tolist()
                load += times[rows].sum() * self.bounds.alone.load(kind, size, devices)
        return int(load.max(initial=0))

    def _message(self, size: int, src: int, dst: int) -> int:
        ranks = self.layout.mesh.ranks_at(src)
        peers = self.layout.mesh.peers(ranks, f"pp:{dst}")
        return self.bounds.alone.message(size, self.device_of[ranks], self.device_of[peers])
