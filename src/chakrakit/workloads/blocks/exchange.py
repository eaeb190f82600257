"""What ranks must exchange for an assignment: exactly the keys that their queries meet."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.workloads.blocks.cutting import Blocks
from chakrakit.workloads.layers import KeyExchange


@dataclass(frozen=True, eq=False)
class Assignment:
    """Blocks and the rank of each."""

    blocks: Blocks
    owner: I64
    ranks: int

    @property
    def tokens(self) -> F64:
        """Tokens of each rank."""
        return np.bincount(self.owner, self.blocks.size, self.ranks).astype(np.float64)

    @property
    def work(self) -> F64:
        """Query–key pairs of each rank."""
        return np.bincount(self.owner, self.blocks.pairs, self.ranks).astype(np.float64)

    @property
    def keys_sent(self) -> float:
        """Tokens whose keys are sent, once for every rank that needs them."""
        return float(exchange_of(self).tokens.sum())

    def span(self, speeds: F64, byte_pairs: float) -> float:
        """The slowest rank's time in pairs: its work, or what it receives or sends if that takes longer."""
        tokens = exchange_of(self).tokens
        moved = np.maximum(tokens.sum(axis=1), tokens.sum(axis=0)) * byte_pairs
        return float(np.maximum(self.work / speeds, moved).max())


@dataclass(frozen=True, eq=False)
class BlockExchange:
    """`tokens[r, s]` keys that rank r needs of rank s, and `pairs[r, s]` the pairs it computes with them."""

    tokens: F64
    pairs: F64


def exchange_of(assignment: Assignment) -> BlockExchange:
    """Keys and pairs between all ranks."""
    blocks, owner, ranks = assignment.blocks, assignment.owner, assignment.ranks
    tokens, pairs = np.zeros((ranks, ranks)), np.zeros((ranks, ranks))
    bounds = np.flatnonzero(np.r_[True, np.diff(blocks.document) > 0, True])
    of_document = _causal if blocks.causal else _whole
    least, most = (of.reduceat(owner, bounds[:-1]) for of in (np.minimum, np.maximum))
    alone, length = least == most, blocks.documents  # documents of one rank are not exchanged
    own = length[alone].astype(np.float64) ** 2 / (2 if blocks.causal else 1)
    pairs[np.diag_indices(ranks)] = np.bincount(least[alone], own, ranks)
    cut = np.flatnonzero(~alone)
    for low, high in zip(bounds[cut].tolist(), bounds[cut + 1].tolist(), strict=True):
        of_document(blocks.size[low:high].astype(np.float64), owner[low:high], tokens, pairs)
    np.fill_diagonal(tokens, 0)
    return BlockExchange(tokens, pairs)


def _causal(size: F64, who: I64, tokens: F64, pairs: F64) -> None:
    """Adds a document whose queries meet all keys before them."""
    used, place = np.unique(who, return_inverse=True)
    held = np.zeros((len(size) + 1, len(used)))
    held[np.arange(1, len(size) + 1), place] = size
    before = np.cumsum(held, axis=0)[:-1]  # tokens of each owner before each block
    np.add.at(pairs, np.ix_(who, used), size[:, None] * before)
    np.add.at(pairs, (who, who), size**2 / 2)
    last = np.full(len(used), -1)
    np.maximum.at(last, place, np.arange(len(size)))
    tokens[np.ix_(used, used)] += before[last]


def _whole(size: F64, who: I64, tokens: F64, pairs: F64) -> None:
    """Adds a document whose queries meet all of its keys."""
    used, place = np.unique(who, return_inverse=True)
    held = np.bincount(place, size)
    pairs[np.ix_(used, used)] += held[:, None] * held
    tokens[np.ix_(used, used)] += held


def key_exchanges(assignment: Assignment) -> list[KeyExchange]:
    """Each rank's part, with other ranks by their distance on the axis that they share."""
    exchange, ranks = exchange_of(assignment), assignment.ranks
    tokens = assignment.tokens.astype(np.int64)
    held = exchange.tokens + np.diag(tokens)
    before = (np.arange(ranks)[:, None] - np.arange(ranks)) % ranks
    after = (np.arange(ranks)[:, None] + np.arange(ranks)) % ranks
    rank = np.arange(ranks)[:, None]
    needs, gives = (m.astype(np.int64).tolist() for m in (held[rank, before], held[after, rank]))
    halves = (2 * exchange.pairs[rank, before]).astype(np.int64).tolist()
    return [
        KeyExchange(
            int(tokens[r]),
            tuple(Fraction(half, 2) for half in halves[r]),
            tuple(needs[r]),
            tuple(gives[r]),
        )
        for r in range(ranks)
    ]
