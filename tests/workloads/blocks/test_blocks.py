"""Attention in blocks: all pairs once, exactly the keys that are needed, near the best balance."""

from __future__ import annotations

import itertools
from dataclasses import replace
from random import Random

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.workloads.blocks import (
    ASSIGNMENTS,
    SLACK,
    Assignment,
    AttentionWork,
    Blocks,
    Terms,
    assigned,
    attention_traces,
    cut,
    exchange_of,
)
from chakrakit.workloads.blocks.assignment import _Packing
from chakrakit.workloads.blocks.moving import Moving


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
    ring, blocks, mixed = (
        assigned([65536], 8, how, terms=Terms.even(8, 5000.0))
        for how in ("per-document", "flops", "mixed")
    )
    assert exchange_of(mixed).tokens == pytest.approx(exchange_of(ring).tokens)
    assert ring.work.max() == pytest.approx(ring.work.mean())
    assert blocks.work.max() == pytest.approx(ring.work.max(), rel=0.01)


def every_assignment(blocks: Blocks, ranks: int) -> np.ndarray:
    """One per row: the rank of each block; only those within the limit on tokens that packing has."""
    owners = np.array(list(itertools.product(range(ranks), repeat=len(blocks))), np.int8)
    room = blocks.size.sum() / ranks * SLACK + blocks.size.max()
    held = np.stack([(owners == rank) @ blocks.size for rank in range(ranks)])
    return owners[(held <= room).all(axis=0)]


def spans(blocks: Blocks, owners: np.ndarray, ranks: int, byte_pairs: float) -> np.ndarray:
    """The slowest rank's time in every assignment, keys counted block by block."""
    keys = np.zeros((len(owners), ranks, ranks))  # tokens that one rank needs of another
    for key, rank in itertools.product(range(len(blocks)), range(ranks)):
        later = (blocks.document == blocks.document[key]) & (blocks.start > blocks.start[key])
        needed = (owners[:, later] == rank).any(axis=1) & (owners[:, key] != rank)
        keys[np.arange(len(owners)), rank, owners[:, key]] += blocks.size[key] * needed
    work = np.stack([(owners == rank) @ blocks.pairs for rank in range(ranks)], axis=1)
    moved = np.maximum(keys.sum(axis=2), keys.sum(axis=1)) * byte_pairs
    return np.maximum(work, moved).max(axis=1)


@pytest.mark.parametrize(("ranks", "most", "seed"), [(2, 12, 0), (2, 12, 1), (3, 9, 2), (3, 9, 3)])
def test_the_search_is_within_a_twentieth_of_the_best_of_all_assignments(
    ranks: int, most: int, seed: int
) -> None:
    """Up to 12 blocks: `flops` where only work counts, `mixed` where keys take time as well."""
    rng = Random(seed)
    blocks = cut([rng.randint(1, 2000) for _ in range(4)], 512)
    while len(blocks) > most:
        blocks = cut(blocks.documents[1:].tolist(), 512)
    lengths, owners = blocks.documents.tolist(), every_assignment(blocks, ranks)
    for how, byte_pairs in (("flops", 0.0), ("mixed", 50.0), ("mixed", 2000.0)):
        terms = Terms.even(ranks, byte_pairs)
        found = assigned(lengths, ranks, how, 512, terms).span(terms.speeds, byte_pairs)
        assert found <= 1.05 * spans(blocks, owners, ranks, byte_pairs).min()


def test_a_move_or_a_trade_changes_the_times_of_ranks_as_counted_anew() -> None:
    for seed in range(20):
        rng = Random(seed)
        ranks, byte_pairs = rng.randint(2, 5), rng.choice([1.0, 300.0, 3000.0])
        blocks = replace(cut([rng.randint(1, 9000) for _ in range(5)], 512), causal=seed % 3 > 0)
        dealt = Assignment(
            blocks, np.array([rng.randrange(ranks) for _ in range(len(blocks))]), ranks
        )
        speeds = np.array([rng.choice([1.0, 2.0]) for _ in range(ranks)])
        moving = Moving(dealt, speeds, byte_pairs, np.full(ranks, np.inf))
        before, after = moving.times().max(), moving.moved()
        received = exchange_of(after).tokens.sum(axis=1) * byte_pairs
        assert moving.times() == pytest.approx(np.maximum(after.work / speeds, received))
        assert moving.times().max() <= before


def test_of_ranks_that_are_as_busy_none_is_divided_with_itself() -> None:
    """Four equal units and two ranks: both are the busiest, and the room of neither is counted twice."""
    packing = _Packing(np.full(4, 8.0), np.full(4, 2.0), Terms.even(2))
    packing.owner = np.array([0, 0, 1, 1])
    room = packing.room.copy()
    assert not packing._divided(np.array([16.0, 16.0]))
    assert (packing.room == room).all()


def test_what_is_no_assignment_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="no assignment 'best'; there are per-document, whole, flops"
    ):
        assigned([10], 2, "best")
    with pytest.raises(ConfigError, match="at least one token"):
        assigned([0], 2, "flops")


@pytest.mark.parametrize(
    ("speeds", "shares", "slack"),
    [
        ((4, 1, 1, 1), (0.9, 0.4, 0.4, 0.4), 1.0),
        ((2, 2, 1, 1), (0.5, 0.5, 0.5, 0.5), 1.0),
        ((4, 1, 1, 1), (0.25, 0.25, 0.25, 0.25), SLACK),
    ],
)
@pytest.mark.parametrize("block", [1024, 8192])
def test_a_search_finds_nothing_worse_than_packing_and_keeps_to_shares(
    speeds, shares, slack, block
):
    """One document of 32,768 tokens: all of it on the fastest rank would break every share."""
    terms = Terms(np.array(speeds) / np.mean(speeds), np.array(shares), 0.0, slack)
    found, packed = (assigned([32768], 4, how, block, terms) for how in ("mixed", "flops"))
    assert found.span(terms.speeds, 0.0) <= packed.span(terms.speeds, 0.0)
    assert (found.tokens <= terms.shares * 32768 * slack + block).all()


def test_unlike_ranks_share_one_document_by_their_speeds():
    """2^29 pairs on ranks of 16/7, 4/7, 4/7 and 4/7: 2^27 units of time if they share them evenly."""
    terms = Terms(np.array([16, 4, 4, 4]) / 7, np.array([0.9, 0.4, 0.4, 0.4]), 0.0, 1.0)
    span = assigned([32768], 4, "mixed", 1024, terms).span(terms.speeds, 0.0)
    assert 2**27 <= span < 2**27 * 1.01


def test_what_a_token_and_a_pair_cost_in_attention():
    """Six heads of 10 with two for keys, in four bytes: two FLOPs each for a score and for a value."""
    work = AttentionWork(heads=6, kv_heads=2, head_dim=10, bytes_per_element=4)
    assert (work.pair_flops, work.token_bytes, work.query_bytes) == (240, 160, 480)
