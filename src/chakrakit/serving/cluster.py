"""The narrow way into the C++ core: pools of engines and a stream in, arrays out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import chakrakit.core as core
from chakrakit.errors import ConfigError
from chakrakit.machines.device import PS_PER_S
from chakrakit.serving.engine import EngineOptions
from chakrakit.serving.kvcache import Capacity
from chakrakit.serving.requests import Stream
from chakrakit.serving.steps import StepCost, picoseconds

Columns = dict[str, NDArray[np.int64]]
Role = Literal["whole", "prefill", "decode"]
Router = Literal["turn", "least", "prefix"]

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
    hooks: Callable[[Any], core.ServingHooks] | None = None
    """Policies as functions, given the cluster they may ask."""
    record_steps: bool = False
    window: tuple[float, float] = (0.0, 0.0)
    """Seconds in which steps also leave what they were made of."""
    audit_every: int = 0
    seed: int = 0
    level_ms: tuple[float | None, float | None, float | None] = (None, None, None)
    """Most to the first token, for each token after it, and in all, with `may_miss`."""
    may_miss: int | None = None
    """Requests that may miss the level; one more, and the run is given up."""


@dataclass(frozen=True)
class Outcome:
    """What came out, in picoseconds: requests, steps, their pieces, moves of caches, totals by engine."""

    requests: Columns
    steps: Columns
    pieces: Columns
    moves: Columns
    totals: list[dict[str, Any]] = field(default_factory=list)
    given_up: bool = False
    """Too many requests missed the service level, and the rest was not served."""


def run(setup: Setup) -> Outcome:
    """Serves the stream to its end."""
    holder: list[core.ServingCluster] = []
    hooks = core.ServingHooks() if setup.hooks is None else setup.hooks(_Late(holder))
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
        cluster.given_up(),
    )


class _Late:
    """The cluster that policies ask, which exists only after they do."""

    def __init__(self, holder: list[core.ServingCluster]) -> None:
        self._holder = holder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._holder[0], name)


def _problem(setup: Setup, hooks: core.ServingHooks) -> core.ServingProblem:
    problem = core.ServingProblem(
        requests=_requests(setup.stream, any(p.options.priorities for p in setup.pools)),
        pools=[_pool(pool, setup) for pool in setup.pools],
        router=core.ServingRouter[setup.router],
        concurrency=setup.stream.concurrency,
        remote_blocks=max(_blocks(pool, pool.options.remote_gib) for pool in setup.pools),
    )
    problem.hand_over(
        setup.handover_seconds_per_token * PS_PER_S, round(setup.handover_latency * PS_PER_S)
    )
    for at, engine, duration in sorted(setup.faults):
        problem.fail(round(at * PS_PER_S), round(duration * PS_PER_S), engine)
    start, end = (round(t * PS_PER_S) for t in setup.window)
    problem.record(setup.record_steps, start, end, setup.audit_every)
    if setup.may_miss is not None:
        ttft, tpot, e2e = (-1 if ms is None else round(ms * 1e9) for ms in setup.level_ms)
        problem.give_up(ttft, tpot, e2e, setup.may_miss)
    problem.hooks = hooks
    return problem


def _requests(stream: Stream, priorities: bool) -> core.ServingRequests:
    return core.ServingRequests(
        arrival=stream.arrival_ps,
        prompt=stream.prompt,
        output=stream.output,
        after=stream.after,
        priority=stream.priority if priorities else np.zeros(len(stream), np.int64),
        adapter=stream.adapter,
        offsets=stream.offsets,
        ids=stream.ids,
        unit=stream.unit,
    )


def _pool(pool: PoolSetup, setup: Setup) -> core.ServingPool:
    made = core.ServingPool(
        role=core.ServingRole[pool.role],
        engines=pool.engines,
        ranks=pool.ranks,
        options=_options(pool, setup.seed, setup.stream),
        cost=_cost(pool),
    )
    if pool.cost.shared is not None and pool.ranks > 1:
        made.shared = picoseconds(pool.cost.shared)
    return made


_SAME = (
    "block_size",
    "token_budget",
    "max_requests",
    "chunk_limit",
    "chunked",
    "prefill_first",
    "prefix_cache",
    "whole_prompt",
    "safety_margin",
    "output_reserve",
    "depth",
    "drafts",
    "acceptance",
    "max_adapters",
)
_TIMES = (
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


_MANY_BLOCKS = 1_000_000
"""More than large models leave room for; what tiny ones leave is cut to what the requests can fill."""


def _used_blocks(pool: PoolSetup, stream: Stream) -> int:
    """Blocks that the core keeps track of: those there are, or twice what all requests together fill."""
    tokens = int(stream.prompt.sum() + stream.output.sum())
    most = 2 * (tokens // pool.options.block_size + len(stream.prompt))
    return min(pool.capacity.blocks, max(most, _MANY_BLOCKS))


def _options(pool: PoolSetup, seed: int, stream: Stream) -> core.ServingOptions:
    o, made = pool.options, core.ServingOptions()
    for name in _SAME:
        setattr(made, name, getattr(o, name))
    for name in _TIMES:
        setattr(made, name, round(getattr(o, f"{name}_ms") * 1e9))
    if o.mask_bandwidth:
        mask = o.token_budget * (pool.capacity.tokens + o.token_budget) * MASK_BYTES
        made.host += round(mask / o.mask_bandwidth * PS_PER_S)
    block = pool.capacity.bytes_per_token * o.block_size
    made.num_blocks = _used_blocks(pool, stream)
    made.discipline = core.ServingDiscipline[o.discipline]
    made.swap_blocks = _blocks(pool, o.swap_gib)
    made.host_blocks = _blocks(pool, o.offload_gib)
    made.ps_per_block = block / pool.host_bandwidth * PS_PER_S if pool.host_bandwidth else 0.0
    made.ps_per_remote_block = block / (o.remote_gbps * 1e9) * PS_PER_S
    made.stages = pool.stages
    made.seed = seed
    return made


def _blocks(pool: PoolSetup, gib: float) -> int:
    """Blocks of the pool's cache that fit in some memory."""
    return int(gib * 2**30 // (pool.capacity.bytes_per_token * pool.options.block_size))


def _cost(pool: PoolSetup) -> core.ServingCost:
    o, cost = pool.options, pool.cost
    made = core.ServingCost(
        dense=picoseconds(cost.dense),
        head=picoseconds(cost.head),
        attention=cost.attention,
        captured=np.array(o.graphs, np.int64),
        adapter=round(pool.adapter_seconds * PS_PER_S),
        draft=round(o.draft_ms * 1e9),
    )
    if cost.padded is not None and o.padding is not None:
        made.padded = _padded(pool, cost.padded, o.padding)
    return made


def _padded(
    pool: PoolSetup, seconds: Callable[[int, int], float], multiples: tuple[int, int]
) -> core.ServingPadded:
    made = core.ServingPadded()
    made.tokens_multiple, made.context_multiple = multiples
    made.most_tokens = pool.options.token_budget
    made.most_context = pool.capacity.tokens
    made.capture = round(pool.capture_seconds * PS_PER_S)
    made.buffers = pool.options.depth
    made.ask = lambda q, kv: round(seconds(q, kv) * PS_PER_S)
    return made
