"""Which rank works on which block.

An assignment balances the work of attention, which grows with the square of documents, under a limit on the
tokens of a rank, which its memory and all other layers set.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.errors import ConfigError
from chakrakit.workloads.blocks.cutting import Blocks, cut, cut_evenly
from chakrakit.workloads.blocks.exchange import Assignment

SLACK = 1.25
"""Tokens of a rank against its share: a quarter more than the mean, which leaves bin packing some choice."""


@dataclass(frozen=True)
class Terms:
    """What an assignment goes by: relative speeds and shares of tokens, and what a token's keys cost to send.

    `byte_pairs` is the time to receive a token's keys and values, in query–key pairs of a rank of speed 1.
    """

    speeds: F64
    shares: F64
    byte_pairs: float = 0.0
    slack: float = SLACK

    @staticmethod
    def even(ranks: int, byte_pairs: float = 0.0) -> Terms:
        """Ranks that are all alike."""
        return Terms(np.ones(ranks), np.full(ranks, 1 / ranks), byte_pairs)


def per_document(documents: Sequence[int], ranks: int, block: int, terms: Terms) -> Assignment:
    """Every document over all ranks: a piece from its front and one from its back each, as a ring does."""
    blocks = cut_evenly(documents, 2 * ranks)
    count = np.bincount(blocks.document)
    place = np.arange(len(blocks)) - np.repeat(np.cumsum(count) - count, count)
    # A short document has fewer pieces than places: they start at another rank for each document.
    turned = (place + blocks.document * (count[blocks.document] < 2 * ranks)) % (2 * ranks)
    return Assignment(blocks, np.minimum(turned, 2 * ranks - 1 - turned), ranks)


def whole_documents(documents: Sequence[int], ranks: int, block: int, terms: Terms) -> Assignment:
    """Every document on one rank: nothing is exchanged, and a long document is one rank's work."""
    blocks = cut(documents, max(documents))
    return Assignment(blocks, _packed(blocks, np.arange(len(blocks)), terms), ranks)


def by_flops(documents: Sequence[int], ranks: int, block: int, terms: Terms) -> Assignment:
    """Blocks, the most work first, each to the rank that is done first and has room for its tokens."""
    blocks = cut(documents, block)
    return Assignment(blocks, _packed(blocks, np.arange(len(blocks)), terms), ranks)


def mixed(documents: Sequence[int], ranks: int, block: int, terms: Terms) -> Assignment:
    """Short documents whole and long ones in blocks: the limit between them is searched for."""
    lengths = sorted(set(documents))
    limits = [0, *np.unique(np.quantile(lengths, np.linspace(0, 1, 9))).astype(int).tolist()]
    tried = [_split_at(documents, ranks, block, terms, limit) for limit in limits]
    tried.append(per_document(documents, ranks, block, terms))
    return min(tried, key=lambda a: a.span(terms.speeds, terms.byte_pairs))


def _split_at(
    documents: Sequence[int], ranks: int, block: int, terms: Terms, limit: int
) -> Assignment:
    """Documents up to a limit stay whole."""
    blocks = cut(documents, block)
    short = np.asarray(documents)[blocks.document] <= limit
    unit = np.where(short, blocks.document, len(documents) + np.arange(len(blocks)))
    return Assignment(blocks, _packed(blocks, unit, terms), ranks)


def _packed(blocks: Blocks, unit: I64, terms: Terms) -> I64:
    """The owner of every block; blocks of one unit stay together."""
    _, number = np.unique(unit, return_inverse=True)
    work, tokens = np.bincount(number, blocks.pairs), np.bincount(number, blocks.size)
    room = terms.shares * blocks.size.sum() * terms.slack + tokens.max() * (terms.shares > 0)
    heap = [(0.0, rank) for rank in np.flatnonzero(terms.shares > 0).tolist()]
    heapq.heapify(heap)
    owner = np.zeros(len(work), np.int64)
    for one in np.argsort(-work, kind="stable").tolist():
        skipped = []
        while True:
            load, rank = heapq.heappop(heap)
            if tokens[one] <= room[rank] or not heap:
                break
            skipped.append((load, rank))
        owner[one] = rank
        room[rank] -= tokens[one]
        heapq.heappush(heap, (load + work[one] / terms.speeds[rank], rank))
        for entry in skipped:
            heapq.heappush(heap, entry)
    packed: I64 = owner[number]
    return packed


ASSIGNMENTS: dict[str, Callable[[Sequence[int], int, int, Terms], Assignment]] = {
    "per-document": per_document,
    "whole": whole_documents,
    "flops": by_flops,
    "mixed": mixed,
}


def assigned(
    documents: Sequence[int], ranks: int, how: str, block: int = 1024, terms: Terms | None = None
) -> Assignment:
    """Blocks of packed documents over ranks."""
    if how not in ASSIGNMENTS:
        raise ConfigError(f"no assignment {how!r}; there are {', '.join(ASSIGNMENTS)}")
    return ASSIGNMENTS[how](documents, ranks, block, terms or Terms.even(ranks))
