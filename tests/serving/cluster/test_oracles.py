"""Every rule of a cluster against a second simulator, to the picosecond, on random clusters.

CHAKRA_CLUSTERS says how many clusters are tried for each rule; 2,000 take some minutes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from typing import Any

import msgspec
import numpy as np
import pytest

from chakrakit.machines.fabric import BandwidthChange
from chakrakit.serving import EngineOptions, MoveLinks, Request, Service, Setup, hooks_of, run
from chakrakit.serving.cluster import PoolSetup, ServingOutcome
from chakrakit.serving.kvcache import Capacity
from chakrakit.serving.links import CodecTerms
from chakrakit.serving.plan import Handover
from chakrakit.serving.policies import division_of
from chakrakit.serving.ranks import RankPause
from chakrakit.serving.requests import Contents, RequestStream, stream_of
from chakrakit.serving.steps import StepCost
from support.serving_engines import NO_ATTENTION
from support.serving_oracle import Oracle
from support.serving_oracle_content import ContentOracle
from support.serving_oracle_divided import DividedOracle, Half
from support.serving_oracle_moves import MovingOracle
from support.serving_oracle_pages import PagedOracle
from support.serving_oracle_parts import Job, Worker
from support.serving_oracle_ranks import RankOracle
from support.serving_oracle_shapes import ShapeOracle
from support.serving_oracle_sources import SourceOracle

CLUSTERS = int(os.environ.get("CHAKRA_CLUSTERS", "8"))
PS = 10**12


@dataclass
class Rules:
    """What both simulators are given: sizes, times in picoseconds, and the decisions."""

    rng: np.random.Generator
    engines: int
    ranks: int = 1
    budget: int = 64
    most: int = 8
    fixed: int = 1_000_000_000
    each: int = 10_000_000
    common: int = 0
    cap: int = 10**9
    exit_at: dict[int, int] = field(default_factory=dict)
    codecs: list[tuple[float, int, int]] = field(default_factory=lambda: [(1.0, 0, 0)])
    schedule: list[tuple[int, float]] = field(default_factory=list)
    pieces: int = 1
    latency: int = 0
    per_token: int = 0
    ways: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """Between pools, where they differ: picoseconds for each token, and latency."""
    pool_of: list[int] = field(default_factory=list)
    gap: int = 10**9
    rank_faults: list[Any] = field(default_factory=list)
    pairs: list[tuple[int, int]] = field(default_factory=list)
    on: list[list[int]] = field(default_factory=list)
    interval: int = PS // 10
    room: int = 0
    shards: int = 1
    share: float = 0.0
    rotate: int = 0
    fetch: int = 0
    kinds: bool = False
    blocks: int = 100_000
    host_blocks: int = 0
    store_blocks: int = 0
    host_ps: int = 0
    store_ps: int = 0
    ids: list[list[int]] = field(default_factory=list)
    every: int = 0
    eager: bool = False

    def store_codec(self, owner: int) -> int:
        return owner % len(self.codecs)

    def divide(self, share: float, content: Any, pages: Any) -> float | None:
        """More for the cache that nearly had more; pages for all that may run at once stay."""
        if content.near == pages.near and content.hits < pages.hits:
            return None
        most = 1 - 24 * 16 / (self.blocks * 16 + self.room)
        return min(most, max(0.01, share + (0.07 if content.near > pages.near else -0.05)))

    def cost(self, batch: Sequence[tuple[Job, int, int]]) -> int:
        if not self.kinds:
            return self.fixed + self.each * sum(n for _, n, _ in batch)
        return self.fixed + sum(self.each * (2 + job.kind) * n for job, n, _ in batch)

    def seconds_of_kinds(self, _items: int, kinds: Mapping[int, int]) -> float:
        return (self.fixed + sum(self.each * (2 + kind) * n for kind, n in kinds.items())) / PS

    def shared(self, tokens: int, alive: int, ranks: int) -> int:
        return self.common * tokens * ranks // alive if ranks > 1 else 0

    def content(self, rotated: int, fetched: int) -> int:
        return rotated * self.rotate + fetched * self.fetch

    def again(self, found: int) -> int:
        return math.ceil(self.share * found)

    def route(self, o: Oracle, job: Job, choice: list[Worker]) -> int | None:
        free = [w for w in choice if w.load() < self.cap]
        best = min(free, key=lambda w: (w.tokens() + o.coming[w.number], w.number), default=None)
        return None if best is None else best.number

    place = route

    def exits(self, job: Job) -> bool:
        return job.generated >= self.exit_at.get(job.number, 10**9)

    def migrate(self, o: Oracle, worker: Worker) -> list[tuple[Job, int]]:
        targets = [w for w in o.choice("whole", "decode") if w is not worker]
        movable = [j for j in worker.running if j.generated > 0]
        least = min(targets, key=lambda w: (w.load(), w.number), default=None)
        if least is None or not movable or worker.load() - least.load() < self.gap:
            return []
        return [(movable[0], least.number)]

    def codec(self, job: Job) -> tuple[float, int, int]:
        return self.codecs[job.number % len(self.codecs)]

    def way(self, source: int, target: int) -> tuple[int, int]:
        if not self.ways:
            return self.per_token, self.latency
        return self.ways[self.pool_of[source], self.pool_of[target]]

    def move_end(
        self, start: int, tokens: int, codec: tuple[float, int, int], per_token: int
    ) -> int:
        ratio, encode, decode = codec
        sent = self.sent(start, tokens * per_token / ratio) - start
        times = sorted((tokens * encode, sent, tokens * decode))
        return start + math.floor(times[2] + (times[0] + times[1]) / self.pieces + 0.5)

    def sent(self, start: int, work: float) -> int:
        """By small intervals of constant bandwidth, from the last change before the start."""
        speed = 1.0
        time = float(start)
        for at, factor in [*self.schedule, (10**30, 1.0)]:
            if at > time:
                if work <= (at - time) * speed:
                    return math.floor(time + work / speed + 0.5)
                work -= (at - time) * speed
                time = float(at)
            speed = factor
        raise AssertionError("a schedule has an end")

    def plan(self, now: int) -> list[int]:
        return self.on[min(now // self.interval, len(self.on) - 1)]

    def open(self, engine: int, tokens: int) -> int:
        return (engine + 1) * 10**10 + tokens * 10**7


class Policy:
    """The same decisions, from what a policy may look at."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.interval_s = rules.interval / PS

    def route(self, request: Any, engines: Any) -> int | None:
        free = [e for e in engines if e.waiting + e.running < self.rules.cap]
        load = {e.number: (e.tokens_held + e.tokens_promised, e.number) for e in free}
        return min(load, key=lambda n: load[n], default=None)

    place = route

    def finish(self, requests: Any, engine: Any) -> list[int]:
        exits = self.rules.exit_at
        return [r.number for r in requests if r.generated >= exits.get(r.number, 10**9)]

    def migrate(self, requests: Any, engine: Any, engines: Any) -> list[tuple[int, int]]:
        if self.rules.gap >= 10**9:
            return []
        targets = [e for e in engines if e.number != engine.number and e.role != "prefill"]
        movable = [r.number for r in requests if r.generated > 0]
        load = {e.number: (e.waiting + e.running, e.number) for e in targets}
        least = min(load, key=lambda n: load[n], default=None)
        if least is None or not movable:
            return []
        own = engine.waiting + engine.running
        return [(movable[0], least)] if own - load[least][0] >= self.rules.gap else []

    def codec(self, request: Any, source: Any, target: Any, link: Any) -> int:
        return int(request.number % len(self.rules.codecs))


class StoringPolicy(Policy):
    """And how blocks in the store are encoded."""

    def store_codec(self, request: Any, engine: Any, link: Any) -> int:
        return self.rules.store_codec(request.number)


class DividingPolicy(Policy):
    """And where the border between content and pages is."""

    def __init__(self, rules: Rules) -> None:
        super().__init__(rules)
        self.divide_every, self.eager = rules.every, rules.eager

    def divide(self, engine: Any, memory: Any) -> float | None:
        counts = [Half(c.hits, c.misses, c.near_misses) for c in (memory.content, memory.pages)]
        return self.rules.divide(memory.share, *counts)


class ScalingPolicy(Policy):
    """And which engines are on."""

    def scale(self, engines: Any, now_s: float) -> list[int]:
        return self.rules.plan(round(now_s * PS))


def random_stream(rng: np.random.Generator, joins: bool = True, kinds: int = 0) -> RequestStream:
    """Bursts and gaps; some requests wait for one or several earlier ones."""
    n = int(rng.integers(4, 40))
    times = np.cumsum(rng.exponential(float(rng.choice([0.0002, 0.002, 0.02])), n))
    times[: int(rng.integers(0, n))] = 0.0
    after = [[-1] for _ in range(n)]
    for i in range(2, n) if joins else ():
        if rng.random() < 0.4:
            count = min(i, int(rng.integers(1, 4)))
            after[i] = sorted(rng.choice(i, count, replace=False).tolist())
    seconds = [rng.random() * 0.01 if a[0] >= 0 else t for a, t in zip(after, times, strict=True)]
    prompt, output = rng.integers(1, 150, n), rng.integers(1, 20, n)
    adapter = rng.integers(0, kinds, n) if kinds else np.full(n, -1)
    pieces = [cut(rng, int(p)) for p in prompt]
    return stream_of(
        seconds, prompt, output, after=after, adapter=adapter, contents=Contents.of(pieces)
    )


def cut(rng: np.random.Generator, prompt: int) -> list[tuple[int, int]]:
    """A prompt as pieces, some of which come again elsewhere; the size goes with the id."""
    pieces, left = [], prompt
    while left > 0:
        number = int(rng.integers(1, 30))
        size = 5 + number % 11
        if size > left:
            break
        pieces.append((number, size))
        left -= size
    return pieces


def pool(rules: Rules, role: Any = "whole", count: int | None = None) -> PoolSetup:
    options = EngineOptions(
        token_budget=rules.budget,
        max_requests=rules.most,
        prefix_cache=bool(rules.ids),
        offload_gib=rules.host_blocks * 16 / 2**30,
        remote_gib=rules.store_blocks * 16 / 2**30,
        remote_gbps=16_000 / max(rules.store_ps, 1),
        content_gib=rules.room / 2**30,
        content_shared=rules.shards > 1,
        content_gbps=1e3 / max(rules.rotate, 1),
        content_link_gbps=1e3 / max(rules.fetch, 1),
        content_recomputed=rules.share,
        content_rotated=1.0 if rules.rotate else 0.0,
    )
    room = Capacity(blocks=rules.blocks, block_size=16, bytes_per_token=1, fixed=True)
    cost = StepCost(
        lambda n: (rules.fixed + rules.each * n) / PS,
        lambda _n: 0.0,
        NO_ATTENTION,
        shared=lambda n: rules.common * n / PS,
        shared_by_fewer=lambda n, alive: rules.common * n * rules.ranks // alive / PS,
    )
    if rules.kinds:
        cost = Service(rules.seconds_of_kinds).cost()
    return PoolSetup(
        options,
        cost,
        room,
        engines=count or rules.engines,
        ranks=rules.ranks,
        role=role,
        host_bandwidth=16 * PS / rules.host_ps if rules.host_ps else 0.0,
    )


def policy_of(rules: Rules) -> Policy:
    if rules.on:
        return ScalingPolicy(rules)
    if rules.every:
        return DividingPolicy(rules)
    return (StoringPolicy if rules.store_blocks else Policy)(rules)


def same(kind: type[Oracle], rules: Rules, stream: RequestStream, pools: list[PoolSetup]) -> None:
    """Both simulators give every request the same times."""
    policy = policy_of(rules)
    changes = tuple(BandwidthChange(at / PS, factor) for at, factor in rules.schedule)
    setup = Setup(
        stream,
        pools,
        handover_seconds_per_token=rules.per_token / PS,
        handover_latency=rules.latency / PS,
        handovers=[
            Handover(rules.ways[a, b][0] / PS, rules.ways[a, b][1] / PS)
            for a in range(len(pools))
            for b in range(len(pools))
            if rules.ways
        ],
        links=MoveLinks(
            changes,
            [CodecTerms(ratio, e / PS, d / PS) for ratio, e, d in rules.codecs],
            rules.pieces,
            changes,
        ),
        rank_faults=[
            RankPause(f.at / PS, f.engine, f.pause / PS, f.away / PS, f.back_pause / PS)
            for f in rules.rank_faults
        ],
        share_devices=rules.pairs,
        open_seconds=lambda e, n: rules.open(e, n) / PS,
        hooks=hooks_of(policy),
        divide=division_of(policy),
        audit_every=1,
    )
    done = run(setup)
    agree(done, kind(jobs(stream), workers(rules, pools), rules).run())


def agree(done: ServingOutcome, expected: list[Job]) -> None:
    """Both give every request the same times."""
    for name, of in (("arrival", "arrived"), ("first", "first"), ("finish", "finish")):
        assert done.requests[name].tolist() == [getattr(j, of) for j in expected], name
    assert done.requests["generated"].tolist() == [j.generated for j in expected]


def jobs(stream: RequestStream) -> list[Job]:
    rows = stream.after.reshape(len(stream), -1).tolist()
    assert stream.contents is not None
    ids, sizes, at = (
        stream.contents.ids.tolist(),
        stream.contents.tokens.tolist(),
        stream.contents.offsets,
    )
    return [
        Job(
            i,
            int(stream.arrival_ps[i]),
            int(stream.prompt[i]),
            int(stream.output[i]),
            [a for a in rows[i] if a >= 0],
            list(zip(ids[at[i] : at[i + 1]], sizes[at[i] : at[i + 1]], strict=True)),
            int(stream.adapter[i]),
        )
        for i in range(len(stream))
    ]


def workers(rules: Rules, pools: list[PoolSetup]) -> list[Worker]:
    roles = [pool.role for pool in pools for _ in range(pool.engines)]
    return [Worker(i, role, i // rules.ranks) for i, role in enumerate(roles)]


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_requests_that_wait_for_others_and_for_engines(seed: int) -> None:
    """Joins; routes that hold; kinds of items."""
    rng = np.random.default_rng([seed, 1])
    rules = Rules(rng, int(rng.integers(1, 5)), cap=int(rng.integers(1, 12)))
    rules.kinds = bool(rng.random() < 0.3)
    same(Oracle, rules, random_stream(rng, kinds=3 if rules.kinds else 0), [pool(rules)])


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_requests_that_end_early_and_move(seed: int) -> None:
    """Exits, migration, places that hold, codecs on links whose bandwidth changes, pools at distances."""
    rng = np.random.default_rng([seed, 2])
    rules = Rules(rng, int(rng.integers(1, 4)), cap=int(rng.integers(2, 12)))
    rules.exit_at = {i: int(rng.integers(1, 10)) for i in range(0, 40, 3)}
    rules.gap = int(rng.integers(2, 5)) if rng.random() < 0.6 else 10**9
    rules.per_token, rules.latency = int(rng.integers(1, 50)) * 10**6, 10**7
    rules.pieces = int(rng.integers(1, 33))
    rules.codecs = [(1.0, 0, 0), (2.5, 3 * 10**6, 10**6), (8.0, 4 * 10**7, 2 * 10**7)]
    changes = np.cumsum(rng.integers(1, 10**11, int(rng.integers(0, 6)))).tolist()
    rules.schedule = [(int(at), float(rng.choice([0.0, 0.1, 0.5, 2.0]))) for at in changes]
    rules.schedule = [*rules.schedule, (10**12, 1.0)] if changes else []
    pools = [pool(rules)]
    if rng.random() < 0.5:
        pools = [pool(rules, "prefill", 2), pool(rules, "decode", int(rng.integers(1, 4)))]
    if rng.random() < 0.5:  # engines of another kind, nearer or further away
        pools = [*pools, pool(rules, pools[-1].role, int(rng.integers(1, 3)))]
        rules.pool_of = [n for n, one in enumerate(pools) for _ in range(one.engines)]
        pairs = product(range(len(pools)), repeat=2)
        rules.ways = {p: (int(rng.integers(0, 50)) * 10**6, 10**7 * p[0]) for p in pairs}
    same(MovingOracle, rules, random_stream(rng), pools)


@dataclass(frozen=True)
class Made:
    """A request that both sources make; times in picoseconds."""

    at: int
    prompt: int
    output: int
    after: tuple[int, ...]
    continues: int


@dataclass
class Loop(Rules):
    """What a source makes of requests that have ended: turns, forks and joins, up to a number."""

    seed: int = 0
    sizes: dict[int, tuple[int, int]] = field(default_factory=dict)
    most_requests: int = 60

    def more(self, now: int, ended: Sequence[int], count: int) -> list[Made]:
        made: list[Made] = []
        for number in ended:
            rng = np.random.default_rng([self.seed, number])
            if count + len(made) + 3 > self.most_requests or rng.random() < 0.3:
                continue
            prompt = sum(self.sizes[number]) + int(rng.integers(0, 60))
            first, wait = count + len(made), int(rng.integers(0, 5)) * 10**9
            branches = int(rng.integers(1, 3))
            for i in range(branches):
                size = prompt if rng.random() < 0.8 else max(1, prompt // 2)
                made.append(Made(now + wait, size + i, int(rng.integers(1, 12)), (), number))
            if rng.random() < 0.5:
                joined = tuple(range(first, first + branches))
                made.append(Made(wait, prompt + 20, int(rng.integers(1, 6)), joined, first))
        for i, one in enumerate(made):
            self.sizes[count + i] = (one.prompt, one.output)
        return made


class LoopSource:
    """The same as a source."""

    def __init__(self, loop: Loop, count: int) -> None:
        self.loop, self.count = loop, count

    def next(self, now_s: float, finished: Sequence[Any]) -> list[Request]:
        made = self.loop.more(round(now_s * PS), [one.number for one in finished], self.count)
        self.count += len(made)
        return [
            Request(
                prompt=one.prompt,
                output=one.output,
                at_s=one.at / PS,
                delay_s=one.at / PS,
                after=one.after,
                continues=one.continues,
            )
            for one in made
        ]


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_requests_that_a_source_makes_fork_and_join(seed: int) -> None:
    """Turns that follow each other, branches that find their parent's cache, and requests that join."""
    rng = np.random.default_rng([seed, 6])
    stream = random_stream(rng, joins=False)
    sizes = dict(enumerate(zip(stream.prompt.tolist(), stream.output.tolist(), strict=True)))

    def rules() -> Loop:
        cap = 1 + seed % 12
        return Loop(rng, 1 + seed % 4, cap=cap, seed=seed, sizes=dict(sizes))

    own = pool(rules())
    own = replace(own, options=msgspec.structs.replace(own.options, prefix_cache=True))
    source = LoopSource(rules(), len(stream))
    hooks = hooks_of(Policy(rules()))
    done = run(Setup(stream, [own], hooks=hooks, source=source, audit_every=1))
    oracle = SourceOracle(jobs(stream), workers(rules(), [own]), rules())
    agree(done, oracle.run())


@dataclass
class Fault:
    at: int
    engine: int
    pause: int
    away: int
    back_pause: int


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_ranks_that_fail_alone(seed: int) -> None:
    """The others pause, go on with more work each, and take the rank back."""
    rng = np.random.default_rng([seed, 3])
    ranks = int(rng.integers(2, 5))
    rules = Rules(rng, ranks * int(rng.integers(1, 3)), ranks, cap=int(rng.integers(4, 20)))
    rules.common = 2 * 10**6
    for at in np.cumsum(rng.integers(10**9, 10**11, int(rng.integers(1, 4)))).tolist():
        away = int(rng.choice([0, 5 * 10**10, 10**11]))
        rules.rank_faults.append(
            Fault(int(at), int(rng.integers(0, rules.engines)), 10**10, away, 10**9)
        )
    gone = [f.engine for f in rules.rank_faults if not f.away]
    if len(gone) >= ranks:
        rules.rank_faults = rules.rank_faults[:1]
    same(RankOracle, rules, random_stream(rng, joins=False), [pool(rules)])


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_engines_that_take_over_devices(seed: int) -> None:
    """Steps end, caches go with the devices, the queue goes back to the router."""
    rng = np.random.default_rng([seed, 4])
    rules = Rules(rng, 4, cap=int(rng.integers(4, 20)), interval=int(rng.integers(10**10, 10**11)))
    rules.pairs = [(0, 2), (1, 2), (0, 3)] if rng.random() < 0.5 else [(0, 2), (1, 3)]
    shapes = [[0, 1], [2], [3, 1]] if (1, 2) in rules.pairs else [[0, 1], [2, 1], [2, 3], [0, 3]]
    rules.on = [shapes[int(rng.integers(len(shapes)))] for _ in range(8)]
    same(ShapeOracle, rules, random_stream(rng), [pool(rules)])


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_content_that_is_found_wherever_it_stands(seed: int) -> None:
    """Hits, what is computed all the same, what other engines hold, and what had to leave."""
    rng = np.random.default_rng([seed, 5])
    rules = Rules(rng, int(rng.integers(1, 4)), cap=int(rng.integers(2, 12)))
    rules.room, rules.share = int(rng.choice([40, 120, 10_000])), float(rng.choice([0.0, 0.25]))
    rules.rotate, rules.fetch = 1000, 4000
    rules.shards = rules.engines if rng.random() < 0.5 else 1
    same(ContentOracle, rules, random_stream(rng), [pool(rules)])


def with_prefixes(rng: np.random.Generator, stream: RequestStream) -> RequestStream:
    """Prompts that begin as others do: one of eight texts, and then their own."""
    ids = []
    for number, prompt in enumerate(stream.prompt.tolist()):
        text, own = int(rng.integers(8)), int(rng.integers(2, 10))
        blocks = range(prompt // 16)
        ids.append([1000 * text + b if b < own else 10**6 + 1000 * number + b for b in blocks])
    offsets = np.concatenate([[0], np.cumsum([len(i) for i in ids])]).astype(np.int64)
    flat = np.array([i for one in ids for i in one], np.uint64)
    return replace(stream, ids=flat, offsets=offsets, unit=16)


def prefix_ids(stream: RequestStream) -> list[list[int]]:
    at = stream.offsets.tolist()
    return [stream.ids[a:b].tolist() for a, b in pairwise(at)]


def tiers(rng: np.random.Generator, rules: Rules) -> None:
    """Pages for all that may run at once, and a host of some size."""
    rules.most, rules.blocks = 2, int(rng.integers(26, 50))
    rules.host_blocks, rules.host_ps = int(rng.choice([0, 6, 60])), 10**6 * int(rng.integers(1, 9))
    rules.cap = int(rng.integers(2, 12))


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_blocks_in_a_store_that_are_encoded_each_in_its_way(seed: int) -> None:
    """Content that leaves pages and host, takes the room of its codec, and is sent and decoded again."""
    rng = np.random.default_rng([seed, 7])
    rules = Rules(rng, int(rng.integers(1, 4)))
    tiers(rng, rules)
    rules.store_blocks, rules.store_ps = int(rng.integers(1, 60)), 4000 * int(rng.integers(1, 4000))
    rules.codecs = [(1.0, 0, 0), (2.5, 10**6, 2 * 10**5), (8.0, 10**7, 10**6)]
    rules.pieces = int(rng.choice([1, 3, 7]))
    changes = np.cumsum(rng.integers(1, 10**11, int(rng.integers(0, 4)))).tolist()
    rules.schedule = [(int(at), float(rng.choice([0.1, 0.5, 2.0]))) for at in changes]
    stream = with_prefixes(rng, random_stream(rng))
    rules.ids = prefix_ids(stream)
    same(PagedOracle, rules, stream, [pool(rules)])


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_pages_and_content_in_one_memory(seed: int) -> None:
    """The border moves by near misses; what shrinks loses its oldest, what grows may be filled at once."""
    rng = np.random.default_rng([seed, 8])
    rules = Rules(rng, int(rng.integers(1, 4)))
    tiers(rng, rules)
    rules.room, rules.share = int(rng.integers(40, 600)), float(rng.choice([0.0, 0.25]))
    rules.rotate, rules.fetch = 1000, 4000
    rules.every, rules.eager = int(rng.integers(1, 6)), bool(rng.random() < 0.6)
    stream = with_prefixes(rng, random_stream(rng))
    rules.ids = prefix_ids(stream)
    same(DividedOracle, rules, stream, [pool(rules)])
