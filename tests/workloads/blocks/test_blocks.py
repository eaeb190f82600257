"""Attention in blocks: all pairs once, exactly the keys that are needed, near the best balance."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.workloads.blocks import (
    ASSIGNMENTS,
    Assignment,
    AttentionWork,
    assigned,
    attention_traces,
    cut,
    exchange_of,
)


def documents(rng: Random, most: int = 12) -> list[int]:
    return [rng.randint(1, 3000) for _ in range(rng.randint(1, most))]


def needed(a: Assignment) -> np.ndarray:
    """Keys that each rank needs of each other, token by token."""
    tokens = np.zeros((a.ranks, a.ranks))
    b = a.blocks
    for reader in range(a.ranks):
        wanted = {
            j
            for i, j in itertools.product(range(len(b)), repeat=2)
            if a.owner[i] == reader and b.document[i] == b.document[j] and b.start[j] < b.start[i]
        }
        for j in wanted:
            if a.owner[j] != reader:
                tokens[reader, a.owner[j]] += b.size[j]
    return tokens


@pytest.mark.parametrize("how", ASSIGNMENTS)
def test_all_pairs_once_and_only_the_keys_that_are_met(how: str) -> None:
    for seed in range(12):
        rng = Random(seed)
        lengths, ranks = documents(rng, 6), rng.choice([1, 2, 3, 5])
        a = assigned(lengths, ranks, how, block=512)
        exchange = exchange_of(a)
        assert exchange.pairs.sum() == pytest.approx(sum(n * n / 2 for n in lengths))
        assert exchange.pairs.sum(axis=1) == pytest.approx(a.work)
        assert exchange.tokens == pytest.approx(needed(a))
        assert a.tokens.sum() == sum(lengths)
        if how == "whole":
            assert not exchange.tokens.any()


def test_the_traces_send_what_the_exchange_says_and_run_to_the_end() -> None:
    a = assigned([5000, 300, 2000, 7000], 4, "flops", block=512)
    work = AttentionWork(backward=True)
    traces = attention_traces(a, work)
    sent = sum(
        int(traces.trace(r).column("comm_size", 0)[traces.trace(r).column("type", 0) == 5].sum())
        for r in range(4)
    )
    assert sent == 2 * exchange_of(a).tokens.sum() * work.token_bytes  # keys there, gradients back
    flops = sum(int(traces.trace(r).column("num_ops", 0).sum()) for r in range(4))
    assert flops == pytest.approx(3 * exchange_of(a).pairs.sum() * work.pair_flops, rel=1e-6)
    assert ck.simulate(traces, "dgx-h100", compute="roofline").summary.makespan_ns > 0


def test_one_document_is_spread_as_evenly_as_in_a_ring() -> None:
    ring, blocks = (assigned([65536], 8, how) for how in ("per-document", "flops"))
    assert ring.work.max() == pytest.approx(ring.work.mean())
    assert blocks.work.max() == pytest.approx(ring.work.max(), rel=0.01)


def test_packing_is_within_a_twentieth_of_the_best_of_all_assignments() -> None:
    """On up to 12 blocks every assignment can be tried; tokens are not limited, so that only work counts."""
    for seed in range(6):
        rng = Random(seed)
        blocks = cut([512 * rng.randint(1, 5) for _ in range(3)], 512)
        while len(blocks) > 9:
            blocks = cut(blocks.documents[1:].tolist(), 512)
        lengths = blocks.documents.tolist()
        best = min(
            np.bincount(np.array(owner), blocks.pairs, 2).max()
            for owner in itertools.product((0, 1), repeat=len(blocks))
        )
        assert assigned(lengths, 2, "flops", block=512).work.max() <= 1.05 * best


def test_what_is_no_assignment_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="no assignment 'best'; there are per-document, whole, flops"
    ):
        assigned([10], 2, "best")
    with pytest.raises(ConfigError, match="at least one token"):
        assigned([0], 2, "flops")
