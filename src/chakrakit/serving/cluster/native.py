"""The narrow way into the C++ core: pools of engines and a stream in, arrays out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import chakrakit.core as core
from chakrakit.errors import ConfigError
from chakrakit.serving.engine import DISCIPLINES, EngineOptions
from chakrakit.serving.kvcache import Capacity
from chakrakit.serving.requests import Stream
from chakrakit.serving.steps import StepCost, picoseconds

Columns = dict[str, NDArray[np.int64]]
Role = Literal["whole", "prefill", "decode"]
Router = Literal["turn", "least", "prefix"]
ROLES: tuple[Role, ...] = ("whole", "prefill", "decode")
ROUTERS: tuple[Router, ...] = ("turn", "least", "prefix")
_PS = 10**12
MASK_BYTES = 2
"""An element of an attention mask in bf16."""


@dataclass(frozen=True)
class PoolSetup:
    """Engines that are alike. `ranks` of them step together; `stages` are those of a pipeline."""

    options: EngineOptions
    cost: StepCost
    capacity: Capacity
    engines: int = 1
    ranks: int = 1
    stages: int = 1
    role: Role = "whole"
    host_bandwidth: float = 0.0
    """Bytes a second between a device and its host, for blocks that move."""
    capture_seconds: float = 0.0
    """Recording the graph of a padded shape."""
    adapter_seconds: float = 0.0
    """What each distinct adapter adds to a step."""


@dataclass(frozen=True)
class Setup:
    """Everything a run depends on."""

    stream: Stream
    pools: Sequence[PoolSetup]
    router: Router = "turn"
    handover_seconds_per_token: float = 0.0
    handover_latency: float = 0.0
    faults: Sequence[tuple[float, int, float]] = ()
    """(seconds, engine, seconds it is down)."""
    hooks: Callable[[Any], Mapping[str, Any]] | None = None
    """Policies as functions, given the cluster they may ask."""
    record_steps: bool = False
    window: tuple[float, float] = (0.0, 0.0)
    """Seconds in which steps also leave what they were made of."""
    audit_every: int = 0
    seed: int = 0


@dataclass(frozen=True)
class Outcome:
    """What came out, in picoseconds: requests, steps, their pieces, moves of caches, totals by engine."""

    requests: Columns
    steps: Columns
    pieces: Columns
    moves: Columns
    totals: list[dict[str, Any]] = field(default_factory=list)
    end_ps: int = 0


def run(setup: Setup) -> Outcome:
    """Serves the stream to its end."""
    holder: list[core.ServingCluster] = []
    hooks = {} if setup.hooks is None else setup.hooks(_Late(holder))
    cluster = core.ServingCluster(_problem(setup, hooks))
    holder.append(cluster)
    try:
        cluster.run()
    except IndexError as error:  # a policy's answer that makes no sense
        raise ConfigError(f"policy: {error}") from None
    finally:
        holder.clear()  # policies and cluster hold each other
    count = sum(pool.engines for pool in setup.pools)
    return Outcome(
        cluster.requests(),
        cluster.steps(),
        cluster.pieces(),
        cluster.moves(),
        [cluster.totals(e) for e in range(count)],
        cluster.now(),
    )


class _Late:
    """The cluster that policies ask, which exists only after they do."""

    def __init__(self, holder: list[core.ServingCluster]) -> None:
        self._holder = holder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._holder[0], name)


def _problem(setup: Setup, hooks: Mapping[str, Any]) -> dict[str, Any]:
    faults = sorted(setup.faults)
    columns = [
        np.array([round(f[i] * (1 if i == 1 else _PS)) for f in faults], np.int64) for i in range(3)
    ]
    return {
        "requests": _requests(setup.stream, any(p.options.priorities for p in setup.pools)),
        "pools": [_pool(pool, setup.seed) for pool in setup.pools],
        "concurrency": setup.stream.concurrency,
        "router": ROUTERS.index(setup.router),
        "handover_ps_per_token": setup.handover_seconds_per_token * _PS,
        "handover_latency": round(setup.handover_latency * _PS),
        "fault_at": columns[0],
        "fault_engine": columns[1],
        "fault_duration": columns[2],
        "hooks": dict(hooks),
        "record_steps": setup.record_steps,
        "audit_every": setup.audit_every,
        "from": round(setup.window[0] * _PS),
        "to": round(setup.window[1] * _PS),
    }


def _requests(stream: Stream, priorities: bool) -> dict[str, Any]:
    return {
        "arrival": stream.arrival_ps,
        "prompt": stream.prompt,
        "output": stream.output,
        "after": stream.after,
        "priority": stream.priority if priorities else np.zeros(len(stream), np.int64),
        "adapter": stream.adapter,
        "offsets": stream.offsets,
        "ids": stream.ids,
        "unit": stream.unit,
    }


def _pool(pool: PoolSetup, seed: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "role": ROLES.index(pool.role),
        "engines": pool.engines,
        "ranks": pool.ranks,
        "options": _options(pool, seed),
        "cost": _cost(pool),
    }
    if pool.cost.shared is not None and pool.ranks > 1:
        found["shared"] = picoseconds(pool.cost.shared)
    return found


def _options(pool: PoolSetup, seed: int) -> dict[str, Any]:
    o, block = pool.options, pool.capacity.bytes_per_token * pool.options.block_size
    same = (
        "block_size",
        "token_budget",
        "max_requests",
        "chunk_limit",
        "chunked",
        "prefill_first",
        "prefix_cache",
        "whole_prompt",
        "depth",
        "drafts",
        "max_adapters",
    )
    times = {
        n: round(getattr(o, f"{n}_ms") * 1e9)
        for n in (
            "host",
            "host_per_request",
            "host_per_token",
            "output",
            "launch",
            "serial",
            "serial_per_request",
            "frontend",
            "warmup",
        )
    }
    if o.mask_bandwidth:
        mask = o.token_budget * (pool.capacity.tokens + o.token_budget) * MASK_BYTES
        times["host"] += round(mask / o.mask_bandwidth * _PS)
    return {
        **{n: getattr(o, n) for n in same},
        **times,
        "num_blocks": pool.capacity.blocks,
        "discipline": DISCIPLINES.index(o.discipline),
        "safety_margin": float(o.safety_margin),
        "output_reserve": float(o.output_reserve),
        "swap_blocks": int(o.swap_gib * 2**30 // block),
        "host_blocks": int(o.offload_gib * 2**30 // block),
        "ps_per_block": block / pool.host_bandwidth * _PS if pool.host_bandwidth else 0.0,
        "stages": pool.stages,
        "acceptance": float(o.acceptance),
        "seed": seed,
    }


def _cost(pool: PoolSetup) -> dict[str, Any]:
    o, cost = pool.options, pool.cost
    found: dict[str, Any] = {
        "dense": picoseconds(cost.dense),
        "head": picoseconds(cost.head),
        "attention": dict(cost.attention),
        "captured": np.array(o.graphs, np.int64),
        "adapter": round(pool.adapter_seconds * _PS),
        "draft": round(o.draft_ms * 1e9),
    }
    if cost.padded is not None and o.padding is not None:
        padded = cost.padded
        found["padded"] = {
            "tokens_multiple": o.padding[0],
            "context_multiple": o.padding[1],
            "most_tokens": o.token_budget,
            "most_context": pool.capacity.tokens,
            "capture": round(pool.capture_seconds * _PS),
            "buffers": o.depth,
            "ask": lambda q, kv: round(padded(q, kv) * _PS),
        }
    return found
