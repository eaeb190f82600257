"""Whatever the stream, the engine and its faults: no token and no block is lost or held twice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from chakrakit.serving.cluster import PoolSetup, Setup, run
from chakrakit.serving.requests import RequestStream, stream_of
from support.serving_engines import by_tokens, constant, pool

REQUESTS = 10_000


def random_stream(rng: np.random.Generator, count: int) -> RequestStream:
    """Bursty arrivals, all kinds of lengths, prefixes in common, some turns of sessions."""
    times = np.sort(rng.gamma(0.3, 0.02, count)).cumsum() * rng.uniform(0.1, 2)
    prompt = rng.integers(1, 200, count)
    output = rng.integers(1, 40, count)
    groups = rng.integers(0, 20, count)
    ids = [
        [int(g) * 1000 + j if j < 6 else 10**6 + i * 100 + j for j in range(p // 16)]
        for i, (g, p) in enumerate(zip(groups.tolist(), prompt.tolist(), strict=True))
    ]
    after = np.where(rng.random(count) < 0.1, np.arange(count) - 1, -1)
    after[0] = -1
    seconds = np.where(after >= 0, 0.01, times)
    return stream_of(
        seconds, prompt, output, ids=ids, after=after, unit=16, priority=rng.integers(0, 3, count)
    )


def random_pool(rng: np.random.Generator) -> PoolSetup:
    discipline = str(rng.choice(["continuous", "continuous", "prefill_alone", "transformers"]))
    return pool(
        blocks=int(rng.integers(40, 200)),
        block_size=int(rng.choice([4, 8, 16])) if discipline != "transformers" else 16,
        cost=by_tokens(1e-4, 1e-6),
        discipline=discipline,
        token_budget=int(rng.integers(32, 512)),
        max_requests=int(rng.integers(1, 64)),
        prefix_cache=bool(rng.random() < 0.7),
        prefill_first=bool(rng.random() < 0.3),
        whole_prompt=bool(rng.random() < 0.5),
        depth=int(rng.integers(1, 3)),
        swap_gib=float(rng.choice([0.0, 1e-4])),
        offload_gib=float(rng.choice([0.0, 1e-4])),
        remote_gib=float(rng.choice([0.0, 2e-4])),
        drafts=int(rng.choice([0, 0, 3])),
        acceptance=0.5,
        priorities=bool(rng.random() < 0.3),
        safety_margin=float(rng.choice([0.0, 0.15])),
    )


@pytest.mark.parametrize("seed", range(6))
def test_random_engines_serve_every_token_once(seed: int) -> None:
    """The core audits its blocks as it goes; at the end every request has all its tokens."""
    rng = np.random.default_rng(seed)
    own = random_pool(rng)
    tokens = own.capacity.tokens
    stream = random_stream(rng, REQUESTS)
    fits = stream.prompt + stream.output + 2 * own.options.block_size <= tokens
    assert fits.all()
    engines = int(rng.integers(1, 5))
    faults = [
        (float(t), int(e), 0.05)
        for t, e in zip(rng.uniform(0, 3, 5), rng.integers(0, engines, 5), strict=True)
    ]
    done = run(
        Setup(
            stream,
            [replace(own, engines=engines)],
            router=("turn", "least", "prefix")[seed % 3],
            faults=faults,
            audit_every=50,
            seed=seed,
        )
    )
    r = done.requests
    assert (r["generated"] == stream.output).all()
    assert (r["finish"] >= r["first"]).all()
    assert (r["first"] > r["scheduled"]).all()
    assert (r["scheduled"] >= r["arrival"]).all()
    assert (r["cached"] < stream.prompt).all()


def test_ten_thousand_requests_on_disaggregated_pools_with_faults() -> None:
    """Prefill and decode engines that fail on the way: every request still gets all its tokens."""
    rng = np.random.default_rng(17)
    stream = random_stream(rng, REQUESTS)
    base = pool(
        blocks=300, cost=by_tokens(1e-4, 1e-6), token_budget=256, prefix_cache=True, depth=2
    )
    pools = [replace(base, role="prefill", engines=3), replace(base, role="decode", engines=2)]
    faults = [(0.2, 0, 0.1), (0.5, 4, 0.05), (0.8, 1, 0.2), (1.5, 2, 0.1)]
    done = run(
        Setup(
            stream,
            pools,
            handover_seconds_per_token=1e-7,
            handover_latency=1e-5,
            faults=faults,
            audit_every=200,
        )
    )
    assert (done.requests["generated"] == stream.output).all()
    assert len(done.moves["start"]) >= int((stream.output > 1).sum())


def test_prefix_hits_are_whole_blocks_and_leave_a_token() -> None:
    """Two equal prompts of 64 tokens in blocks of 16: the second finds three blocks, not four."""
    stream = stream_of([0.0, 1.0], [64, 64], [4, 4], ids=[[1, 2, 3, 4]] * 2)
    done = run(Setup(stream, [pool(prefix_cache=True)]))
    assert done.requests["cached"].tolist() == [0, 48]


def test_names_of_512_tokens_are_32_blocks_each() -> None:
    """A shared name of 512 tokens is found block by block, up to the last but one token."""
    stream = stream_of([0.0, 1.0], [700, 1200], [2, 2], ids=[[7, 8], [7, 9, 10]], unit=512)
    done = run(Setup(stream, [pool(prefix_cache=True)]))
    assert done.requests["cached"].tolist() == [0, 512]


def test_cached_content_is_evicted_least_recently_used_first() -> None:
    """Ten blocks: A and B fill them; C takes A's, so that B is found again and A is not."""
    a, b, c = [1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]
    stream = stream_of([0.0, 1.0, 2.0, 3.0, 4.0], [65] * 5, [1] * 5, ids=[a, b, c, b, a])
    done = run(Setup(stream, [pool(prefix_cache=True, blocks=10)]))
    assert done.requests["cached"].tolist() == [0, 0, 0, 64, 0]


def test_the_host_tier_gives_back_what_the_device_lost() -> None:
    """What leaves the device goes to the host and is found there."""
    a, b, c = [1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]
    stream = stream_of([0.0, 1.0, 2.0, 3.0], [65] * 4, [1] * 4, ids=[a, b, c, a])
    done = run(Setup(stream, [pool(prefix_cache=True, blocks=10, offload_gib=1.0)]))
    assert done.requests["cached"].tolist() == [0, 0, 0, 64]
    assert done.totals[0]["host_hits"] == 64


def test_engines_share_the_remote_tier() -> None:
    """Content that left the first engine is found by the second, which never computed it."""
    a, b = [1, 2, 3, 4], [5, 6, 7, 8]
    stream = stream_of([0.0, 0.5, 1.0, 2.0, 3.0], [65] * 5, [1] * 5, ids=[a, b, b, b, a])
    own = pool(prefix_cache=True, blocks=5, remote_gib=1.0, remote_gbps=1e-3, cost=constant(0.01))
    done = run(Setup(stream, [replace(own, engines=2)], record_steps=True))
    assert done.requests["engine"].tolist() == [0, 1, 0, 1, 0]
    assert done.requests["cached"].tolist() == [0, 0, 0, 64, 64]
    assert done.totals[0]["remote_hits"] == 64
    stream = stream_of([0.0, 1.0, 2.0], [65] * 3, [1] * 3, ids=[a, b, a])
    done = run(Setup(stream, [own], record_steps=True))
    took = (done.steps["end"] - done.steps["start"]) * 1e-12
    # Four blocks of 16 tokens of 1,000 bytes at 1 MB/s, then the step.
    assert took.tolist() == pytest.approx([0.01, 0.01, 0.01 + 0.064])
