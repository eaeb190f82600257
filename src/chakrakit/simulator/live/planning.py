"""Plans for what programs decide on: messages, collectives, storage and kernels, as `simulate` makes them.

Everything is planned once and remembered; equal decisions share a plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

import chakrakit.core as core
from chakrakit.errors import ConfigError, nearest
from chakrakit.machines.device import picoseconds
from chakrakit.machines.fabric import Machine, farther
from chakrakit.operators import element_type
from chakrakit.simulator.collectives import COLLECTIVES
from chakrakit.simulator.engine import (
    FIGURES,
    NativeSimulation,
    SimulationOptions,
    TransferPlans,
    message_cost,
    one_collective,
)
from chakrakit.trace.communication import ROOTED
from chakrakit.trace.model import TraceBuilder
from chakrakit.trace.sets import TraceSet

_KINDS = {name: kind for kind, name in COLLECTIVES.items()}


class Planning:
    """Adds plans to a world."""

    def __init__(self, world: core.LiveWorld, machine: Machine, options: SimulationOptions) -> None:
        self.world, self.machine, self.options = world, machine, options
        self.fair = options.network == "flow"
        self._stores = {store.name: i for i, store in enumerate(machine.stores)}
        # Groups are set up by `new_group`, at the cost that the program gives.
        self._ready = replace(machine, software=replace(machine.software, groups=None))
        self._written: Counter[int] = Counter()
        self.plan_collective = cache(self._plan_collective)
        self._plan_access = cache(self._new_access)
        self.work_ps = cache(self._work_ps)

    @staticmethod
    @cache
    def _ps(seconds: float) -> int:
        return picoseconds(seconds, "an overhead")

    def _add(self, plans: dict[str, Any], links: dict[str, Any]) -> int:
        """Adds plans to the world; the number of the first."""
        arrays = {k: v for k, v in plans.items() if k not in FIGURES}
        return self.world.add_plans(
            core.SimPlans(**arrays), core.SimTopology(**links), plans["payload"]
        )

    def message_cost(
        self, src: int, dst: int, size: int, bandwidth: float, outermost: int, latency_ps: int
    ) -> tuple[float, int]:
        """The bytes that the links of a message carry, and the picoseconds before they flow.

        A library's picoseconds count the way's latency; those of ports come on top of it.
        """
        if self.machine.library is not None:
            away = outermost > 0
            way = farther(self.machine, latency_ps * 1e-12, away=away)
            stretch, wait = message_cost(self.machine.library, size, bandwidth, away, way)
            return size * stretch, wait
        book = TransferPlans(self.machine, self.fair)
        book.add_messages(np.array([src]), np.array([dst]), np.array([float(size)]))
        plans, _, routes = book.arrays()
        way = float(routes.latency(self.machine.links)[0])
        known = self._ps(way) + self._ps(self.machine.software.step_overhead)
        return float(plans["bytes"][0]), int(plans["delay"][0]) - known

    def _plan_collective(
        self, kind: str, size: int, devices: Sequence[int], root: int
    ) -> tuple[int, int]:
        """The plan of a collective among devices, and the picoseconds before its first step."""
        if kind not in _KINDS:
            raise ConfigError(f"no collective {kind!r}; {nearest(kind, _KINDS)}")
        if len(set(devices)) < len(devices):
            raise ConfigError("a collective needs members on ranks of their own")
        rooted = root if _KINDS[kind] in ROOTED else -1
        traces = one_collective(_KINDS[kind], size, range(len(devices)), rooted)
        options = replace(self.options, placement=tuple(devices), allow_empty=True)
        laid = NativeSimulation(traces, self._ready, options).laid_out()
        first = self._add(laid.plans, laid.links)
        return first + int(laid.workload["job_plan"][0]), int(laid.workload["overhead"][0])

    def plan_access(self, store: str, size: int, writes: bool, device: int) -> tuple[int, int]:
        """The plan of a read or write, and its server; an error where that cannot hold what is written."""
        plan, server = self._plan_access(store, size, writes, device)
        tier = self.machine.stores[self._stores[store]]
        if writes and tier.capacity:
            self._written[server] += tier.moved(size, 1)
            if self._written[server] > tier.capacity:
                raise ConfigError(
                    f"{self._written[server]:,} bytes are written to a server of {store!r}, which holds "
                    f"{tier.capacity:,.0f}; give it a larger `capacity` or more servers"
                )
        return plan, server

    def _new_access(self, store: str, size: int, writes: bool, device: int) -> tuple[int, int]:
        """The plan of a read or write at a store, and the server whose queue it waits in."""
        if store not in self._stores:
            raise ConfigError(
                f"{self.machine.name} has no store {store!r}; {nearest(store, self._stores)}"
                if self._stores
                else f"{self.machine.name} has no storage; describe it under `storage` in its file"
            )
        tier = self.machine.stores[self._stores[store]]
        if tier.when_full == "refuse" and tier.queue:
            raise ConfigError(
                f"store {store!r} refuses what finds its queue full, which programs do not know; give it "
                "`when_full: wait`, or put a pool with a `queue` before it"
            )
        book, devices = TransferPlans(self.machine, self.fair), np.array([device])
        book.add_stored(self._stores[store], devices, writes, tier.moved(size, 1))
        plans, links, _ = book.arrays()
        server = self.machine.servers(self._stores[store], devices)
        return self._add(plans, links), int(server[0])

    def _work_ps(self, device: int, flops: float, bytes: int, dtype: str) -> int:
        """How long the device computes for so many FLOPs and bytes."""
        t = TraceBuilder()
        typed: dict[str, Any] = {"dtype": element_type(dtype).name} if dtype else {}
        t.comp("compute", num_ops=int(flops), tensor_size=int(bytes), **typed)
        return int(self.options.work.costs(t.build(), self.machine.device(device)).ps[0])

    def score(self, traces: TraceSet, devices: Sequence[int]) -> tuple[int, Any]:
        """Gives the core traces to play on these devices: their number there, and each rank's first row."""
        if any("unit" in traces.body_at(b).column_names for b in range(traces.body_count)):
            raise ConfigError(
                "traces whose nodes name units of their device cannot be played by programs yet; "
                "`chakra simulate` runs them"
            )
        options = replace(self.options, placement=tuple(devices))
        laid = NativeSimulation(traces, self.machine, options).laid_out()
        first = self._add(laid.plans, laid.links)
        devices_of = np.array(devices, np.int32)
        return (
            self.world.add_score(core.SimWorkload(**laid.workload), devices_of, first),
            laid.offset,
        )
