"""What has failed for good when a simulation stops: devices, and links with who was sending over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from chakrakit.machines.fabric import Machine
from chakrakit.simulator.engine.instances import Instances


class Blocked(NamedTuple):
    """A transfer that cannot end, since a link on its way has failed."""

    instance: int
    copy: int
    """Which of the groups, or pairs of ranks, that the instance stands for."""
    link: int
    sender: int
    """The device that sends, or a negative number for a server or a switch; `receiver` likewise."""
    receiver: int


@dataclass(frozen=True, eq=False)
class Failed:
    """Links and devices that do nothing any more, and the plans that may cross those links."""

    machine: Machine
    links: list[int]
    devices: list[int]
    """By the class of the ranks that run there."""
    plans: Mapping[str, Any]
    routes: Mapping[str, Any]

    @staticmethod
    def at_end(
        machine: Machine, workload: Mapping[str, Any], plans: Mapping[str, Any], routes: Any
    ) -> Failed:
        """Those whose last change leaves them nothing."""
        links, devices = _without_rate(workload, 1), _without_rate(workload, 0)
        return Failed(machine, links, devices, plans, routes)

    def name(self, link: int) -> str:
        """The link by its ends."""
        names, links = self.machine.vertex_names(), self.machine.links
        return f"{names[int(links.src[link])]} → {names[int(links.dst[link])]}"

    def blocked(self, instances: Instances, arrays: Mapping[str, Any]) -> Iterator[Blocked]:
        """Of every copy of an instance that began and has not ended, one transfer that cannot."""
        if not self.links:
            return
        dead = np.zeros(len(self.machine.links), np.bool_)
        dead[self.links] = True
        first = np.r_[0, np.cumsum([len(jobs) for jobs in instances.jobs])]
        for i in np.flatnonzero((arrays["began"] >= 0) & (arrays["ended"] < 0)).tolist():
            ended = arrays["job_ended"][first[i] : first[i + 1]]
            for copy in np.flatnonzero(ended < 0).tolist():
                way = self._crossing(int(instances.jobs[i][copy]), dead)
                if way is not None:
                    yield Blocked(i, copy, *way)

    def _crossing(self, plan: int, dead: Any) -> tuple[int, int, int] | None:
        """Link, sender and receiver of a plan's first transfer over a link that has failed."""
        steps = self.plans["plan_steps"][plan : plan + 2]
        low, high = self.plans["step_transfers"][steps]
        for route in self.plans["route"][low:high].tolist():
            begin, end = self.routes["route_offsets"][route : route + 2]
            way: Sequence[int] = self.routes["route_links"][begin:end]
            failed = [int(link) for link in way if dead[link]]
            if failed:
                links = self.machine.links
                sender, receiver = int(links.src[way[0]]), int(links.dst[way[-1]])
                return failed[0], self._device(sender), self._device(receiver)
        return None

    def _device(self, vertex: int) -> int:
        return vertex if vertex < self.machine.size else -1 - vertex


def _without_rate(workload: Mapping[str, Any], is_link: int) -> list[int]:
    """Links or devices whose last change is to nothing."""
    mine = workload["fault_is_link"] == is_link
    targets, factors = workload["fault_target"][mine], workload["fault_factor"][mine]
    last = dict(zip(targets.tolist(), factors.tolist(), strict=True))
    return sorted(target for target, factor in last.items() if factor == 0)
