"""What ranks must exchange for an assignment: exactly the keys that their queries meet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.workloads.blocks.cutting import Blocks


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

    def span(self, speeds: F64, byte_pairs: float) -> float:
        """The time of the slowest rank, in pairs: its work, or what it receives where that takes longer."""
        received = exchange_of(self).tokens.sum(axis=1) * byte_pairs
        return float(np.maximum(self.work / speeds, received).max())


@dataclass(frozen=True, eq=False)
class Exchange:
    """`tokens[r, s]` keys that rank r needs of rank s, and `pairs[r, s]` the pairs it computes with them."""

    tokens: F64
    pairs: F64


def exchange_of(assignment: Assignment) -> Exchange:
    """Keys and pairs between all ranks. A causal query meets all keys of its document before it."""
    blocks, owner, ranks = assignment.blocks, assignment.owner, assignment.ranks
    tokens, pairs = np.zeros((ranks, ranks)), np.zeros((ranks, ranks))
    bounds = np.flatnonzero(np.r_[True, np.diff(blocks.document) > 0, True])
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        size, who = blocks.size[low:high].astype(np.float64), owner[low:high]
        used, place = np.unique(who, return_inverse=True)
        held = np.zeros((high - low + 1, len(used)))
        held[np.arange(1, high - low + 1), place] = size
        before = np.cumsum(held, axis=0)[:-1]  # tokens of each owner before each block
        np.add.at(pairs, np.ix_(who, used), size[:, None] * before)
        np.add.at(pairs, (who, who), size**2 / 2)
        last = np.full(len(used), -1)
        np.maximum.at(last, place, np.arange(high - low))
        tokens[np.ix_(used, used)] += before[last]
    np.fill_diagonal(tokens, 0)
    return Exchange(tokens, pairs)
