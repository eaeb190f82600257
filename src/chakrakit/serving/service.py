"""Any service: requests are items of kinds, and a function says how long a step with some of them takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from chakrakit.errors import ConfigError
from chakrakit.machines import load_machine
from chakrakit.machines.device import Device
from chakrakit.machines.fabric import Machine
from chakrakit.operators import WorkingType
from chakrakit.serving.cluster import MOST_ENGINES, PoolSetup, Setup, check_policy, run
from chakrakit.serving.engine import EngineOptions
from chakrakit.serving.kvcache import Capacity
from chakrakit.serving.policies import hooks_of
from chakrakit.serving.requests import RequestStream, Source
from chakrakit.serving.results import ServedRun, ServiceLevel
from chakrakit.serving.steps import StepCost, forward_seconds, no_attention
from chakrakit.workloads.description import Decoder, Model
from chakrakit.workloads.models import model_named

_UNBOUNDED = 1_000_000
"""Items that an engine without a limit of memory has room for: more than any batch."""
_MOST_ITEMS = 1 << 31
"""Items and requests of a step that the core still counts without running over."""


@dataclass(frozen=True)
class Service:
    """Engines that run items in steps: encoders, recommenders, diffusion or vision models.

    A request's prompt is its number of items, its adapter their kind, and its output the number of steps:
    the first has all its items, each further one a single item. `step_seconds(items, kinds)` gives the time
    of a step with so many items, of which `kinds` says how many are of each kind.
    """

    step_seconds: Callable[[int, Mapping[int, int]], float]
    memory: float = 0.0
    """Bytes for the items of requests that have started, without weights; 0 for no limit."""
    item_bytes: float = 0.0
    """Bytes of an item until its request ends."""
    max_items: int = 64
    """Most items of a step."""
    max_requests: int = 0
    """Most requests of a step; 0 for as many as it has items."""
    in_parts: bool = False
    """Whether the items of a request may be spread over several steps."""
    engines: int = 1
    name: str = "service"

    def __post_init__(self) -> None:
        if self.max_items < 1 or self.engines < 1 or self.max_requests < 0:
            raise ConfigError(f"service {self.name}: max_items and engines must be 1 or more")
        if self.engines > MOST_ENGINES or max(self.max_items, self.max_requests) > _MOST_ITEMS:
            raise ConfigError(
                f"service {self.name}: {self.engines:,} engines, steps of {self.max_items:,} items and "
                f"{self.max_requests:,} requests; give at most {MOST_ENGINES:,}, {_MOST_ITEMS:,} and as many"
            )
        if self.memory and not 0 < self.item_bytes <= self.memory < math.inf:
            raise ConfigError(
                f"service {self.name}: {self.memory:g} bytes of memory need item_bytes above 0 that fit"
            )

    @classmethod
    def of_model(
        cls,
        model: str | Model,
        machine: str | Machine,
        *,
        max_items: int = 16,
        dtype: WorkingType = "bf16",
        compute: str = "auto",
        **fields: Any,
    ) -> Service:
        """A vision, diffusion or recommender model on one device, by the time of its forward steps.

        An item is a sample. A diffusion request has one, and as many outputs as it has denoising steps.
        """
        resolved = model_named(model) if isinstance(model, str) else model
        if isinstance(resolved, Decoder):
            raise ConfigError(f"{resolved.name} is a model over tokens: serve it by its name")
        place = load_machine(machine) if isinstance(machine, str) else machine
        seconds = forward_seconds(resolved, place, max_items, dtype, compute)
        named = {"name": resolved.name, **fields}
        return cls(lambda items, _kinds: seconds(items), max_items=max_items, **named)

    def pool(self, stream: RequestStream | None = None) -> PoolSetup:
        """The engines in the terms of the core: a block is an item's room.

        Without a limit of memory there is room for all items of the stream, or for very many.
        """
        options = EngineOptions(
            name=self.name,
            block_size=1,
            token_budget=self.max_items,
            max_requests=self.max_requests or self.max_items,
            prefix_cache=False,
            chunked=self.in_parts,
        )
        most = _UNBOUNDED if stream is None else int((stream.prompt + stream.output).sum())
        room = min(most, _UNBOUNDED)
        if self.memory:  # more than all items of a stream is never held
            room = int(min(self.memory // self.item_bytes, max(most, _UNBOUNDED)))
        capacity = Capacity(
            blocks=room, block_size=1, bytes_per_token=max(1, round(self.item_bytes)), fixed=True
        )
        return PoolSetup(options, self.cost(), capacity, engines=self.engines)

    def cost(self) -> StepCost:
        """The time of its steps."""

        def seconds(kinds: Mapping[int, int]) -> float:
            taken = self.step_seconds(sum(kinds.values()), kinds)
            if not 0 <= taken < 1e6:
                raise ConfigError(f"service {self.name}: a step with {dict(kinds)} takes {taken} s")
            return taken

        return StepCost(
            dense=lambda _n: 0.0,
            head=lambda _n: 0.0,
            attention=no_attention(),
            service=seconds,
            about=f"the service's own function {self.name}",
        )

    def check(self, stream: RequestStream) -> None:
        """Raises an error where a request could never be served."""
        pool = self.pool(stream)
        most = int((stream.prompt + stream.output - 1).max())
        if most > pool.capacity.blocks:
            raise ConfigError(
                f"service {self.name}: a request of {most} items has no room; {pool.capacity.blocks} fit"
            )
        if not self.in_parts and int(stream.prompt.max()) > self.max_items:
            raise ConfigError(
                f"service {self.name}: a request of {int(stream.prompt.max())} items never fits a step of "
                f"{self.max_items}; give a larger max_items, or in_parts"
            )

    def served(
        self,
        stream: RequestStream,
        level: ServiceLevel | None = None,
        *,
        policy: Any = None,
        source: Source | None = None,
        **more: Any,
    ) -> ServedRun:
        """The stream served to its end; `more` are further fields of `Setup`: router, faults, records."""
        self.check(stream)
        hooks = None if policy is None else hooks_of(policy)
        pool = self.pool(stream if source is None else None)
        check_policy(policy, [pool])
        stream = replace(stream, model=None)  # whatever they ask for, there is one service
        setup = Setup(stream, [pool], hooks=hooks, source=source, feasible=self.check, **more)
        outcome = run(setup)
        setup = replace(setup, stream=outcome.stream)
        level = level or ServiceLevel()
        return ServedRun(setup, outcome, _unknown(self.name), (1,), (), None, level)


def _unknown(name: str) -> Device:
    """A device of which nothing is known."""
    return Device(
        name=name,
        peak={},
        memory=0.0,
        memory_bandwidth=0.0,
        compute_efficiency=1.0,
        memory_efficiency=1.0,
        kernel_overhead=0.0,
        power=0.0,
        idle_power=0.0,
        price_per_hour=0.0,
        comm_slowdown=0.0,
        sources={},
    )
