"""Packed documents on ranks that share them: rings, exchanges of heads, and attention in blocks."""

from __future__ import annotations

from functools import cache

import numpy as np

from chakrakit.machines import load_machine
from chakrakit.machines.fabric import Machine
from chakrakit.published.tools import seconds_of, unsure
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.model import CollectiveType, TraceBuilder
from chakrakit.trace.sets import TraceSet
from chakrakit.workloads.blocks import AttentionWork, Terms, assigned, attention_traces, exchange_of

WORK = AttentionWork()
PER_RANK = 8192
"""Tokens of a rank."""
RATE, NIC, NVLINK = 989.4e12, 50e9, 450e9
"""An H100's dense bf16 peak, a 400 Gb/s adapter, NVLink one way, by data sheets: what a plan goes by."""


def byte_pairs(ranks: int) -> float:
    """Pairs that a rank computes while it receives a token's keys, within a node or between nodes."""
    return WORK.token_bytes / (NVLINK if ranks <= 8 else NIC) * RATE / WORK.pair_flops


@cache
def site(ranks: int, seed: int) -> Machine:
    """Nodes of eight H100, with constants that are not quite certain."""
    return unsure(load_machine(f"dgx-h100:{max(1, ranks // 8)}"), seed)


@cache
def documents(ranks: int, mean: int, sigma: float, seed: int) -> tuple[int, ...]:
    """Lengths that fill all ranks; a mean of 0 is one document."""
    total, rng = ranks * PER_RANK, np.random.default_rng([seed, mean])
    if not mean:
        return (total,)
    lengths: list[int] = []
    while (left := total - sum(lengths)) > 0:
        drawn = rng.lognormal(np.log(mean) - sigma**2 / 2, sigma)
        lengths.append(int(min(left, max(256, drawn))))
    return tuple(lengths)


def pairs_of(lengths: tuple[int, ...]) -> float:
    """Query–key pairs of all documents."""
    return sum(n * n / 2 for n in lengths)


@cache
def ring_seconds(lengths: tuple[int, ...], ranks: int, heads: int, seed: int) -> float:
    """Groups of `heads` ranks exchange heads for tokens, and pass keys round a ring of such groups.

    Every document is cut evenly over all ranks, so that all have the same work. With 1 it is a plain ring.
    """
    rounds, tokens = ranks // heads, PER_RANK
    piece = pairs_of(lengths) / ranks / rounds * WORK.pair_flops
    size = tokens * WORK.token_bytes
    moved = tokens * (WORK.token_bytes + WORK.query_bytes) // rounds
    bodies = []
    for rank in range(ranks):
        t, ready = TraceBuilder(), []
        if heads > 1:
            ready = [_heads(t, tokens, [])]
        have, nearer = list(ready), (rank + heads) % ranks
        last = -1
        for k in range(rounds):
            last = t.comp(
                "attention", num_ops=int(piece), tensor_size=moved, dtype="bf16", op_type="attention",
                stream=0, deps=have,
            )  # fmt: skip
            if k < rounds - 1:
                t.send("keys", rank, nearer, size, tag=k, stream=1, deps=have)
                have = [t.recv("keys", (rank - heads) % ranks, rank, size, tag=k, stream=2)]
        if heads > 1:
            _heads(t, tokens, [last])
        bodies.append(t.build())
    names = {str(g): list(range(g * heads, (g + 1) * heads)) for g in range(rounds)}
    bindings = {
        r: Binding(r, {"heads": str(r // heads)} if heads > 1 else {}) for r in range(ranks)
    }
    return seconds_of(TraceSet(bodies, bindings, Groups(names)), site(ranks, seed))


def _heads(t: TraceBuilder, tokens: int, deps: list[int]) -> int:
    """Queries, keys, values or results of a rank, exchanged for those of its heads."""
    size = tokens * (WORK.token_bytes + WORK.query_bytes) // 2
    return t.collective(
        "heads", CollectiveType.ALL_TO_ALL, size, pg_name="heads", stream=3, deps=deps
    )


def block_seconds(
    lengths: tuple[int, ...], ranks: int, how: str, block: int, seed: int
) -> tuple[float, float, float]:
    """Seconds, the busiest rank's work over the mean, and tokens of keys that are sent per token."""
    # A document that is cut over all ranks has no blocks of a given size.
    return _block_seconds(lengths, ranks, how, 1 if how == "per-document" else block, seed)


@cache
def _block_seconds(
    lengths: tuple[int, ...], ranks: int, how: str, block: int, seed: int
) -> tuple[float, float, float]:
    a = assigned(lengths, ranks, how, block, Terms.even(ranks, byte_pairs(ranks)))
    traces = attention_traces(a, WORK)
    sent = float(exchange_of(a).tokens.sum())
    seconds = seconds_of(traces, site(ranks, seed))
    return seconds, float(a.work.max() / a.work.mean()), sent / sum(lengths)


def mfu(lengths: tuple[int, ...], ranks: int, seconds: float) -> float:
    """The share of the peak that attention reaches."""
    return pairs_of(lengths) * WORK.pair_flops / ranks / RATE / seconds
