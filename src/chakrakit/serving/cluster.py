"""The interface to the C++ core: takes pools of engines and a stream, and gives arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import chakrakit.core as core
from chakrakit.errors import ConfigError
from chakrakit.machines.device import MOST_SECONDS, PICO, PS_PER_S
from chakrakit.machines.device import picoseconds as whole_picoseconds
from chakrakit.serving.engine import MOST_COUNT, EngineOptions
from chakrakit.serving.kvcache import Capacity
from chakrakit.serving.links import MoveLinks
from chakrakit.serving.plan import Handover
from chakrakit.serving.policies import Division, division_of, picoseconds_of
from chakrakit.serving.policy_views import request_view
from chakrakit.serving.ranks import RankPause
from chakrakit.serving.requests import FinishedRequest, GrowingStream, RequestStream, Source
from chakrakit.serving.steps import StepCost, picoseconds

Columns = dict[str, NDArray[np.int64]]
Role = Literal["whole", "prefill", "decode"]
Router = Literal["turn", "least", "prefix"]

MASK_BYTES = 2
"""Bytes of an element of an attention mask, in bf16."""


@dataclass(frozen=True)
class PoolSetup:
    """A pool of equal engines. `ranks` of them step together; `stages` are those of a pipeline."""

    options: EngineOptions
    cost: StepCost
    capacity: Capacity
    engines: int = 1
    ranks: int = 1
    stages: int = 1
    role: Role = "whole"
    host_bandwidth: float = 0.0
    """Bytes per second between a device and its host, for blocks that move."""
    capture_seconds: float = 0.0
    """Time to record the graph of a padded shape."""
    adapter_seconds: float = 0.0
    """Time that each distinct adapter adds to a step."""
    model: int = -1
    """The place in the stream's `models` of the only model that it serves; -1 for whatever is asked for."""


def check_policy(policy: Any, pools: Sequence[PoolSetup]) -> None:
    """Raises an error where a policy decides on something that no engine has."""
    if callable(getattr(policy, "store_codec", None)) and not any(
        pool.options.remote_gib for pool in pools
    ):
        raise ConfigError(
            "policy: store_codec encodes what goes to the shared store; give engines remote_gib"
        )
    for pool in pools if division_of(policy) is not None else ():
        if not pool.options.content_gib:
            raise ConfigError(
                "policy: divide moves the border between pages and content; give every engine content_gib, "
                "what content has at first"
            )
        if pool.options.content_shared:
            raise ConfigError(
                "policy: divide moves the border within an engine; leave out content_shared"
            )


def unused(links: MoveLinks, pools: Sequence[PoolSetup], policy: Any) -> tuple[str, ...]:
    """What was said of moves and of the shared store where there are none."""
    moves = any(pool.role == "prefill" for pool in pools) or callable(
        getattr(policy, "migrate", None)
    )
    stores = any(pool.options.remote_gib for pool in pools)
    said = {
        "codecs": bool(links.codecs) and not (moves or stores),
        "link_schedule": bool(links.schedule) and not moves,
        "store_schedule": bool(links.store_schedule) and not stores,
    }
    names = [name for name, idle in said.items() if idle]
    if not names:
        return ()
    return (
        f"{', '.join(names)}: without effect; caches move from prefill to decode engines or where a policy "
        "migrates, and engines with remote_gib have a store",
    )


@dataclass(frozen=True)
class Setup:
    """Everything a run depends on."""

    stream: RequestStream
    pools: Sequence[PoolSetup]
    router: Router = "turn"
    handover_seconds_per_token: float = 0.0
    handover_latency: float = 0.0
    handovers: Sequence[Handover] = ()
    """Instead of both: how caches move from each pool to each, those of the first pool first."""
    links: MoveLinks = field(default_factory=MoveLinks)
    """How the bandwidth of moves and of the shared store changes, and how caches may be encoded."""
    faults: Sequence[tuple[float, int, float]] = ()
    """(seconds, engine, seconds it is down)."""
    rank_faults: Sequence[RankPause] = ()
    share_devices: Sequence[tuple[int, int]] = ()
    """Pairs of engines that use the same devices, of which one is on."""
    open_seconds: Callable[[int, int], float] | None = None
    """The time until an engine is ready on devices that others left, by its number and the tokens of their
    caches; without it, the policy's `start_up_s`."""
    source: Source | None = None
    """Makes further requests while the run goes on."""
    feasible: Callable[[RequestStream], None] | None = None
    """Raises an error where a source's request could never be served."""
    hooks: Callable[[Any], core.ServingHooks] | None = None
    """Makes the policy's functions from the cluster they may look at."""
    divide: Division | None = None
    """How often a policy is asked where the border between an engine's two caches should be."""
    record_steps: bool = False
    window: tuple[float, float] = (0.0, 0.0)
    """The interval in seconds in which the pieces of steps are recorded too."""
    audit_every: int = 0
    seed: int = 0
    level_ms: tuple[float | None, float | None, float | None] = (None, None, None)
    """The service level for `may_miss`: most ms to the first token, for each token after it, and in all."""
    may_miss: int | None = None
    """Requests that may miss the level; with one more, the run is given up."""


@dataclass(frozen=True)
class ServingOutcome:
    """The outcome, in picoseconds: requests, steps, their pieces, moves of caches, totals by engine."""

    requests: Columns
    steps: Columns
    pieces: Columns
    moves: Columns
    stream: RequestStream
    """All requests that there were, those of a source included."""
    totals: list[dict[str, Any]] = field(default_factory=list)
    given_up: bool = False
    """Whether too many requests missed the service level, so that the rest was not served."""
    switched: bool = False
    """Whether a policy switched engines on and off."""
    openings: Columns = field(default_factory=dict)
    """Engines that took over devices of others: when, for how long, with how many tokens of caches."""

    @property
    def most_under_way(self) -> int:
        """The most requests that had come and not ended at one time."""
        times = (self.requests[name] for name in ("arrival", "finish"))
        came, ended = (np.sort(t[t >= 0]) for t in times)
        there = np.arange(1, len(came) + 1) - np.searchsorted(ended, came, side="right")
        return int(there.max(initial=0))


def run(setup: Setup) -> ServingOutcome:
    """Serves the stream to its end."""
    holder: list[core.ServingCluster] = []
    late = _Late(holder)
    hooks = core.ServingHooks() if setup.hooks is None else setup.hooks(late)
    growing = None if setup.source is None else GrowingStream(setup.source, setup.stream)
    if growing is not None:
        _ask(hooks, growing, late, setup)
    if (seconds := setup.open_seconds) is not None and setup.share_devices:
        hooks.open(lambda engine, tokens: round(seconds(engine, tokens) * PS_PER_S))
    cluster = core.ServingCluster(_problem(setup, hooks))
    holder.append(cluster)
    try:
        cluster.run()
    except IndexError as error:  # a policy's answer that makes no sense
        raise ConfigError(f"policy: {error}") from None
    except OverflowError as error:
        raise ConfigError(str(error)) from error
    finally:
        holder.clear()  # policies and cluster hold each other
    count = sum(pool.engines for pool in setup.pools)
    return ServingOutcome(
        requests=cluster.requests(),
        steps=cluster.steps(),
        pieces=cluster.pieces(),
        moves=cluster.moves(),
        stream=setup.stream if growing is None else growing.stream(),
        totals=[cluster.totals(e) for e in range(count)],
        given_up=cluster.given_up(),
        switched=any(cluster.totals(e)["on"] != cluster.now() for e in range(count)),
        openings=cluster.openings(),
    )


def _ask(hooks: core.ServingHooks, growing: GrowingStream, cluster: Any, setup: Setup) -> None:
    """Lets the core ask the source for more requests."""

    def more(now: int, ended: list[int]) -> core.ServingRequests | None:
        first = len(growing)
        views = [request_view(cluster, n, knows_output=False) for n in ended]
        finished = [
            FinishedRequest(
                v.number, v.arrived_s, v.first_s or 0.0, now * PICO, v.generated, v.prompt
            )
            for v in views
        ]
        part = growing.more(now * PICO, finished)
        if part is None:
            return None
        if setup.feasible is not None:
            setup.feasible(part)
        return _requests(part, first)

    hooks.next(more)
    hooks.source_interval = picoseconds_of(setup.source, "interval_s", 0.0, 0.0)


class _Late:
    """Stands for the cluster that policies look at, which is created after them."""

    def __init__(self, holder: list[core.ServingCluster]) -> None:
        self._holder = holder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._holder[0], name)


def _problem(setup: Setup, hooks: core.ServingHooks) -> core.ServingProblem:
    problem = core.ServingProblem(
        requests=_requests(setup.stream),
        pools=[_pool(pool, setup) for pool in setup.pools],
        router=core.ServingRouter[setup.router],
        concurrency=setup.stream.concurrency,
        remote_blocks=max(_blocks(pool, pool.options.remote_gib) for pool in setup.pools),
    )
    problem.hand_over(
        setup.handover_seconds_per_token * PS_PER_S,
        round(setup.handover_latency * PS_PER_S),
        setup.links.pieces,
    )
    problem.hand_over_between(
        [(h.seconds_per_token * PS_PER_S, round(h.latency * PS_PER_S)) for h in setup.handovers]
    )
    _links(problem, setup.links)
    for fault in _checked_rank_faults(setup):
        times = (fault.pause_s, fault.away_s, fault.back_pause_s)
        pause, away, back = (round(t * PS_PER_S) for t in times)
        problem.fail_rank(round(fault.at_s * PS_PER_S), fault.engine, pause, away, back)
    for a, b in setup.share_devices:
        problem.share_devices(a, b)
    for at, engine, duration in sorted(_checked_faults(setup)):
        problem.fail(round(at * PS_PER_S), round(duration * PS_PER_S), engine)
    start, end = (round(t * PS_PER_S) for t in setup.window)
    problem.record(setup.record_steps, start, end, setup.audit_every)
    if setup.may_miss is not None:
        ttft, tpot, e2e = (-1 if ms is None else round(ms * 1e9) for ms in setup.level_ms)
        problem.give_up(ttft, tpot, e2e, setup.may_miss)
    problem.hooks = hooks
    return problem


def _checked_faults(setup: Setup) -> Sequence[tuple[float, int, float]]:
    """The faults of engines that are there, at times that a clock has."""
    count = sum(pool.engines for pool in setup.pools)
    for at, engine, duration in setup.faults:
        if not (0 <= engine < count and 0 <= at < MOST_SECONDS and 0 <= duration < MOST_SECONDS):
            raise ConfigError(
                f"a fault at {at:g} s of engine {engine} for {duration:g} s; engines are 0 to {count - 1}, "
                f"and times are from 0 s to {MOST_SECONDS:,.0f} s"
            )
    return setup.faults


def _checked_rank_faults(setup: Setup) -> Sequence[RankPause]:
    """The failures of ranks that are there."""
    count = sum(pool.engines for pool in setup.pools)
    for fault in setup.rank_faults:
        if not 0 <= fault.engine < count:
            raise ConfigError(
                f"rank {fault.engine} fails at {fault.at_s:g} s; ranks are 0 to {count - 1}"
            )
    return setup.rank_faults


def _links(problem: core.ServingProblem, links: MoveLinks) -> None:
    for schedule, told in (
        (links.schedule, problem.link_schedule),
        (links.store_schedule, problem.store_schedule),
    ):
        at = np.array([round(c.at * PS_PER_S) for c in schedule], np.int64)
        told(at, np.array([c.factor for c in schedule], np.float64))
    if links.codecs:
        problem.codecs(
            [
                (
                    c.ratio,
                    c.encode_seconds_per_token * PS_PER_S,
                    c.decode_seconds_per_token * PS_PER_S,
                )
                for c in links.codecs
            ]
        )


def _requests(stream: RequestStream, first: int = 0) -> core.ServingRequests:
    requests = core.ServingRequests(
        arrival=stream.arrival_ps,
        prompt=stream.prompt,
        output=stream.output,
        after=np.ascontiguousarray(stream.after).reshape(-1),
        priority=stream.priority,
        adapter=stream.adapter,
        offsets=stream.offsets,
        ids=stream.ids,
        unit=stream.unit,
        parents=1 if stream.after.ndim == 1 else stream.after.shape[1],
        first=first,
    )
    related = (stream.continues, stream.group, stream.deadline_ps, stream.model, stream.tenant)
    if any(column is not None for column in related):
        continues, group, deadline, model, tenant = (_NONE if c is None else c for c in related)
        requests.relate(
            continues=continues, group=group, deadline=deadline, model=model, tenant=tenant
        )
    if stream.contents is not None:
        requests.fill(stream.contents.ids, stream.contents.tokens, stream.contents.offsets)
    return requests


_NONE = np.zeros(0, np.int64)


def _pool(pool: PoolSetup, setup: Setup) -> core.ServingPool:
    if max(pool.engines, pool.ranks) > MOST_ENGINES:
        raise ConfigError(
            f"{pool.engines:,} engines with {pool.ranks:,} data-parallel ranks each; {MOST_ENGINES:,} of "
            "either are the most"
        )
    if not 0 <= setup.seed < 1 << 63:
        raise ConfigError(f"seed {str(setup.seed)[:40]}; give a number of 63 bits, 0 or more")
    core_pool = core.ServingPool(
        role=core.ServingRole[pool.role],
        engines=pool.engines,
        ranks=pool.ranks,
        options=_options(pool, setup.seed, setup.stream, setup.divide),
        cost=_cost(pool),
    )
    if pool.cost.shared is not None and pool.ranks > 1:
        core_pool.shared = picoseconds(pool.cost.shared)
        if (fewer := pool.cost.shared_by_fewer) is not None:
            core_pool.shared_by_fewer = lambda n, ranks: round(fewer(n, ranks) * PS_PER_S)
    core_pool.model = pool.model
    return core_pool


_UNCHANGED_OPTIONS = (
    "block_size",
    "token_budget",
    "max_requests",
    "chunk_limit",
    "chunked",
    "prefill_first",
    "prefix_cache",
    "whole_prompt",
    "priorities",
    "safety_margin",
    "output_reserve",
    "no_evict",
    "gather_steps",
    "gather_share",
    "balance_steps",
    "look_steps",
    "depth",
    "drafts",
    "acceptance",
    "max_adapters",
)
_TIME_OPTIONS = (
    "host",
    "host_per_request",
    "host_per_token",
    "output",
    "launch",
    "prompt_launch",
    "serial",
    "serial_per_request",
    "frontend",
    "warmup",
)


MOST_ENGINES = 10_000
"""Engines of a kind: so many take up to a quarter of a gigabyte before the first request."""
_MANY_BLOCKS = 1_000_000
"""Blocks that the core always keeps track of: more than large models leave room for. With tiny models, more
are tracked only if the requests can fill them."""


def _used_blocks(pool: PoolSetup, stream: RequestStream) -> int:
    """Blocks that the core keeps track of: all, or where that is less, twice what all requests fill."""
    tokens = int(stream.prompt.sum() + stream.output.sum())
    most = 2 * (tokens // pool.options.block_size + len(stream.prompt))
    return min(pool.capacity.blocks, max(most, _MANY_BLOCKS))


def _options(
    pool: PoolSetup, seed: int, stream: RequestStream, divide: Division | None
) -> core.ServingOptions:
    o, core_options = pool.options, core.ServingOptions()
    for name in _UNCHANGED_OPTIONS:
        setattr(core_options, name, getattr(o, name))
    for name in _TIME_OPTIONS:
        setattr(core_options, name, round(getattr(o, f"{name}_ms") * 1e9))
    if o.mask_bandwidth:
        mask = o.token_budget * (pool.capacity.tokens + o.token_budget) * MASK_BYTES
        core_options.host += whole_picoseconds(mask / o.mask_bandwidth, "copying a step's mask")
    block = pool.capacity.bytes_per_token * o.block_size
    core_options.num_blocks = pool.capacity.blocks if divide else _used_blocks(pool, stream)
    if divide is not None:
        core_options.divide_every, core_options.eager = divide.every, divide.eager
    core_options.discipline = core.ServingDiscipline[o.discipline]
    core_options.swap_blocks = _blocks(pool, o.swap_gib)
    core_options.host_blocks = _blocks(pool, o.offload_gib)
    core_options.ps_per_block = (
        block / pool.host_bandwidth * PS_PER_S if pool.host_bandwidth else 0.0
    )
    core_options.ps_per_remote_block = block / (o.remote_gbps * 1e9) * PS_PER_S
    _content(core_options, pool)
    core_options.stages = pool.stages
    core_options.seed = seed
    return core_options


def _content(core_options: core.ServingOptions, pool: PoolSetup) -> None:
    """What the core is told of content that is found wherever it stands."""
    o = pool.options
    tokens = o.content_gib * 2**30 // pool.capacity.bytes_per_token
    core_options.content_tokens = int(min(tokens, MOST_COUNT))
    core_options.content_shards = pool.engines if o.content_shared else 1
    core_options.recomputed = o.content_recomputed
    moved = pool.capacity.bytes_per_token * o.content_rotated
    core_options.ps_per_rotated_token = moved / (o.content_gbps * 1e9) * PS_PER_S
    fetched = pool.capacity.bytes_per_token / (o.content_link_gbps * 1e9)
    core_options.ps_per_fetched_token = fetched * PS_PER_S


def _blocks(pool: PoolSetup, gib: float) -> int:
    """Blocks of the pool's cache that fit in this many GiB, at the most as many as the core can count."""
    blocks = gib * 2**30 // (pool.capacity.bytes_per_token * pool.options.block_size)
    return int(min(blocks, MOST_COUNT))


def _cost(pool: PoolSetup) -> core.ServingCost:
    o, cost = pool.options, pool.cost
    core_cost = core.ServingCost(
        dense=picoseconds(cost.dense),
        head=picoseconds(cost.head),
        attention=cost.attention,
        captured=np.array(o.graphs, np.int64),
        adapter=round(pool.adapter_seconds * PS_PER_S),
        draft=round(o.draft_ms * 1e9),
    )
    if (service := cost.service) is not None:
        core_cost.service = lambda kinds: round(service(dict(kinds)) * PS_PER_S)
    if cost.padded is not None and o.padding is not None:
        core_cost.padded = _padded(pool, cost.padded, o.padding)
    return core_cost


def _padded(
    pool: PoolSetup, seconds: Callable[[int, int], float], multiples: tuple[int, int]
) -> core.ServingPadded:
    core_padded = core.ServingPadded()
    core_padded.tokens_multiple, core_padded.context_multiple = multiples
    core_padded.most_tokens = pool.options.token_budget
    core_padded.most_context = pool.capacity.tokens
    core_padded.capture = whole_picoseconds(pool.capture_seconds, "recording a step's graph")
    core_padded.buffers = pool.options.depth
    core_padded.ask = lambda q, kv: round(seconds(q, kv) * PS_PER_S)
    return core_padded
