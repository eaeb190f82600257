"""A run laid out once and scheduled again for every change, while its transfers keep their measured times."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from chakrakit import core
from chakrakit.arrays import I64, Mask
from chakrakit.errors import ConfigError, TraceError
from chakrakit.machines import parse_machine
from chakrakit.machines.device import nanoseconds_to_ticks, work_model
from chakrakit.machines.fabric import Machine
from chakrakit.simulator.engine.disturb import Disturbance
from chakrakit.simulator.engine.measured import MeasuredTransfers
from chakrakit.simulator.engine.native import NativeSimulation, SimulationOptions
from chakrakit.simulator.engine.program import COMPUTE, Program
from chakrakit.trace.sets import TraceSet


def no_machine(world: int) -> Machine:
    """A machine with a device for every rank, and no peak, memory, power or price."""
    level = {"topology": "switch", "size": max(1, world), "bandwidth": 1e9}
    return replace(parse_machine({"network": [level]}, "no machine"), name="")


class ClassSchedule(NamedTuple):
    """When every row of every class starts and ends, in ps."""

    start: I64
    end: I64

    @property
    def makespan_ps(self) -> int:
        """The end of the last row."""
        return int(self.end.max(initial=0))


_APART = 2.0
"""Any factor but 1: ranks whose devices may be given another speed get classes of their own."""


class FixedTransfers:
    """A workload with measured times, in the arrays of the core.

    `simulate` with measured computation and communication gives the same times; what it prepares
    is prepared once here, and all copies of a transfer, which take the same time, are one.
    """

    def __init__(self, traces: TraceSet, apart: Collection[int] = ()) -> None:
        self.traces = traces
        options = SimulationOptions(
            work=work_model("measured"),
            communication="measured",
            measured_collectives=lambda *_: 0.0,  # replaced by what each was measured to take
            disturbance=Disturbance(stragglers=dict.fromkeys(apart, _APART)),
        )
        simulation = NativeSimulation(traces, no_machine(traces.world_size), options)
        if any(len(program.stored.row) for program in simulation.programs):
            raise TraceError("reads and writes at stores are not fixed transfers; simulate the run")
        self.classes, self.offset, instances, self.programs, workload = simulation.folded()
        self.ranks = [simulation.membership.ranks[int(i)] for i in self.classes.first]
        self.class_of = dict(
            zip(simulation.membership.ranks, self.classes.rank.tolist(), strict=True)
        )
        self.own = [program.trace.own_ns for program in self.programs]
        self._workload = workload
        self._transfers = MeasuredTransfers(instances, self.programs)
        self._topology = core.SimTopology(
            bandwidth=np.ones(1),
            route_offsets=np.zeros(2, np.int64),
            route_links=np.zeros(0, np.int32),
        )

    def rows(self, c: int) -> slice:
        """The rows of a class, as a slice of a schedule's arrays."""
        return slice(int(self.offset[c]), int(self.offset[c + 1]))

    def schedule(
        self,
        own: list[I64] | None = None,
        kept: list[Mask | None] | None = None,
        stragglers: Mapping[int, float] | None = None,
    ) -> ClassSchedule:
        """Schedules all rows.

        By class, `own` are the rows' own times in ns and `kept` the edges that still hold; `stragglers` are
        factors by rank, among the ranks that are `apart`.
        """
        own_ns = np.concatenate([*(own or self.own), np.zeros(0, np.int64)])
        after, transfer = self._transfers.times(own_ns)
        changed: dict[str, Any] = {
            "duration": self._durations(own_ns, stragglers or {}),
            "after": after,
        }
        if kept is not None:
            changed |= self._edges(kept)
        arrays = core.sim_run(
            core.SimWorkload(**self._workload | changed),
            _plans(transfer),
            self._topology,
            False,
            None,
        )
        if (arrays["end"] < 0).any():
            raise ConfigError("with this change some work can never run: it waits for itself")
        return ClassSchedule(arrays["start"], arrays["end"])

    def _durations(self, own_ns: I64, stragglers: Mapping[int, float]) -> I64:
        ticks = nanoseconds_to_ticks(own_ns, lambda _: "an operation")
        if not stragglers:
            return ticks
        disturbance = Disturbance(stragglers=stragglers)
        parts = [
            disturbance.apply(rank, ticks[self.rows(c)], program.kind == COMPUTE)
            for c, (rank, program) in enumerate(zip(self.ranks, self.programs, strict=True))
        ]
        return np.concatenate(parts)

    def _edges(self, kept: list[Mask | None]) -> dict[str, Any]:
        """The edges that hold, and the launches among them."""
        masks = [_all(p) if k is None else k for p, k in zip(self.programs, kept, strict=True)]
        mask = np.concatenate(masks)
        return {name: self._workload[name][mask] for name in ("src", "dst", "form", "lag")}


def _all(program: Program) -> Mask:
    return np.ones(len(program.edges.src), np.bool_)


def _plans(transfer_ns: I64) -> Any:
    """A plan for each transfer: one step that takes its time and uses no link."""
    count = len(transfer_ns)
    each = np.arange(count + 1)
    return core.SimPlans(
        plan_steps=each,
        repeat=np.ones(count, np.int64),
        after_offsets=np.zeros(count + 1, np.int64),
        after=np.zeros(0, np.int32),
        step_transfers=each,
        route=np.zeros(count, np.int32),
        bytes=np.zeros(count),
        delay=nanoseconds_to_ticks(transfer_ns, lambda _: "a transfer"),
    )
