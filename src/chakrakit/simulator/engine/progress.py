"""How far collectives had got when a simulation stopped: the bytes that each device had sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.machines.fabric import Machine
from chakrakit.simulator.engine.instances import Instances


class Progressed(NamedTuple):
    """Of one device in one copy of an instance: bytes sent and received so far, and all it has to."""

    instance: int
    copy: int
    device: int
    sent: float
    to_send: float
    received: float
    to_receive: float
    held: float
    """Transfers on their way that it sends or receives."""


@dataclass(frozen=True, eq=False)
class Progress:
    """Transfers that were on their way, and the plans they belong to."""

    machine: Machine
    plans: Mapping[str, Any]
    routes: Mapping[str, Any]
    job: I64
    transfer: I64
    rounds: I64
    remaining: F64

    @staticmethod
    def of(
        machine: Machine,
        plans: Mapping[str, Any],
        routes: Mapping[str, Any],
        arrays: dict[str, Any],
    ) -> Progress:
        """What the core says of a simulation that has stopped."""
        names = ("job", "transfer", "rounds", "bytes")
        return Progress(machine, plans, routes, *(arrays[f"unfinished_{n}"] for n in names))

    def by_device(self, instances: Instances) -> Iterator[Progressed]:
        """Of every copy of an instance that is on its way, what each of its devices has sent."""
        first = np.r_[0, np.cumsum([len(jobs) for jobs in instances.jobs])]
        for job in np.unique(self.job).tolist():
            instance = int(np.searchsorted(first, job, "right")) - 1
            copy = job - int(first[instance])
            plan = int(instances.jobs[instance][copy])
            figures = np.vstack([self._moved(job, plan), self._held(job)])
            for device in np.flatnonzero(figures[1] + figures[3]).tolist():
                yield Progressed(instance, copy, device, *figures[:, device].tolist())

    def _held(self, job: int) -> F64:
        """By device, transfers of a job that it takes part in and that have not ended."""
        held = np.zeros(self.machine.size)
        for ends in self._ends(self.plans["route"][self.transfer[self.job == job]]):
            np.add.at(held, ends[ends < self.machine.size], 1.0)
        return held

    def _moved(self, job: int, plan: int) -> F64:
        """By device, bytes that a job has sent and has to send, has received and has to receive."""
        plans = self.plans
        low, high = plans["plan_steps"][plan : plan + 2].tolist()
        bounds = plans["step_transfers"][low : high + 1]
        transfers = np.arange(bounds[0], bounds[-1])
        step = np.repeat(np.arange(high - low), np.diff(bounds))
        size, repeat = plans["bytes"][transfers], plans["repeat"][low:high]
        done = size * self._rounds_done(job, low, high, bounds)[step]
        mine = self.job == job
        place = self.transfer[mine] - bounds[0]
        done[place] = (
            size[place] * (repeat[step[place]] - self.rounds[mine] + 1) - self.remaining[mine]
        )
        moved = np.zeros((4, self.machine.size))
        for place, ends in enumerate(self._ends(plans["route"][transfers])):
            known = ends < self.machine.size
            np.add.at(moved[2 * place], ends[known], done[known])
            np.add.at(moved[2 * place + 1], ends[known], (size * repeat[step])[known])
        return moved

    def _rounds_done(self, job: int, low: int, high: int, bounds: I64) -> F64:
        """By step, how often its transfers have ended, this round of a running step included."""
        plans, mine = self.plans, self.job == job
        running = np.searchsorted(bounds, self.transfer[mine], "right") - 1
        left = dict(zip(running.tolist(), self.rounds[mine].tolist(), strict=True))
        rounds, ended = np.zeros(high - low), np.zeros(high - low, np.bool_)
        for s in range(high - low):
            begin, end = plans["after_offsets"][low + s : low + s + 2]
            ended[s] = s not in left and ended[plans["after"][begin:end]].all()
            repeat = float(plans["repeat"][low + s])
            rounds[s] = repeat if ended[s] else repeat - left[s] + 1 if s in left else 0.0
        return rounds

    def _ends(self, route: I64) -> tuple[I64, I64]:
        """The vertices at which each route begins and ends; a large number where it stays on a device."""
        begin, end = (self.routes["route_offsets"][route + k] for k in (0, 1))
        empty, links = end == begin, self.routes["route_links"]
        first, last = (links[np.where(empty, 0, at)] for at in (begin, end - 1))
        nowhere = np.iinfo(np.int64).max
        sender = np.where(empty, nowhere, self.machine.links.src[first].astype(np.int64))
        return sender, np.where(empty, nowhere, self.machine.links.dst[last].astype(np.int64))
