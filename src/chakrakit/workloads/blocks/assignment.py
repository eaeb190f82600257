"""Which rank works on which block.

An assignment balances the work of attention, which grows with the square of documents, under a limit on the
tokens of a rank, which its memory and all other layers set.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.errors import ConfigError
from chakrakit.workloads.blocks.cutting import Blocks, cut, cut_evenly
from chakrakit.workloads.blocks.exchange import Assignment
from chakrakit.workloads.blocks.moving import Moving, few

SLACK = 1.25
"""Tokens of a rank against its share: a quarter more than the mean, which leaves bin packing some choice."""
_EVEN = 0.002
"""A packing so near to even shares is not improved."""
_WORTH = 0.005
"""What a trade among ranks that are alike has to bring, as a share of the busiest one's time: kernels' times
scatter by more. Among unlike ranks, where the first packing is further off, every trade counts."""
_MOST_TRADES = 500
"""Trades after packing; a few dozen are usual, and each looks at all units."""
_DIVISIONS = 1 << 15
"""Ways to divide units among two or three ranks that are all tried, in about ten milliseconds."""
_PARTNERS = 6
"""The least busy ranks, of which two at a time share with the busiest."""


_MOVED = 3
"""The best limits between whole and cut documents, from which blocks are moved."""


@dataclass(frozen=True)
class Terms:
    """What an assignment goes by: relative speeds and shares of tokens, and what a token's keys cost to send.

    `byte_pairs` is the time to receive a token's keys and values, in query–key pairs of a rank of speed 1.
    """

    speeds: F64
    shares: F64
    byte_pairs: float = 0.0
    slack: float = SLACK
    causal: bool = True
    """Whether queries meet only the keys before them."""

    @staticmethod
    def even(ranks: int, byte_pairs: float = 0.0) -> Terms:
        """Ranks that are all alike."""
        return Terms(np.ones(ranks), np.full(ranks, 1 / ranks), byte_pairs)


def per_document(documents: Sequence[int], ranks: int, block: int, terms: Terms) -> Assignment:
    """Every document over all ranks: a piece from its front and one from its back each, as a ring does."""
    blocks = replace(cut_evenly(documents, 2 * ranks), causal=terms.causal)
    count = np.bincount(blocks.document)
    place = np.arange(len(blocks)) - np.repeat(np.cumsum(count) - count, count)
    # A short document has fewer pieces than places: they start at another rank for each document.
    turned = (place + blocks.document * (count[blocks.document] < 2 * ranks)) % (2 * ranks)
    return Assignment(blocks, np.minimum(turned, 2 * ranks - 1 - turned), ranks)


def whole_documents(documents: Sequence[int], ranks: int, block: int, terms: Terms) -> Assignment:
    """Every document on one rank: nothing is exchanged, and a long document is one rank's work."""
    blocks = replace(cut(documents, max(documents)), causal=terms.causal)
    return Assignment(blocks, _packed(blocks, np.arange(len(blocks)), terms), ranks)


def by_flops(documents: Sequence[int], ranks: int, block: int, terms: Terms) -> Assignment:
    """Blocks, the most work first, each to the rank that is done first and has room for its tokens."""
    blocks = replace(cut(documents, block), causal=terms.causal)
    return Assignment(blocks, _packed(blocks, np.arange(len(blocks)), terms), ranks)


def mixed(documents: Sequence[int], ranks: int, block: int, terms: Terms) -> Assignment:
    """Short documents whole and long ones in blocks: the limit between them is searched for.

    From the best limits, and from blocks that are just dealt out, blocks are moved as long as that helps.
    """
    dealt = [_dealt(documents, ranks, block, terms, turn) for turn in (False, True)]
    unlike = bool(np.ptp(terms.speeds) or np.ptp(terms.shares))
    packed = [by_flops(documents, ranks, block, terms)] if unlike else []
    if few(dealt[0]):
        tried = [*packed, *(_moved(a, terms) for a in (dealt[0], *packed))]
    elif len(documents) == 1:
        # Among like ranks, uneven pieces of one document send less in all and wait longer in their rounds.
        tried = [whole_documents(documents, ranks, block, terms), *packed]
    else:
        lengths = sorted(set(documents))
        limits = [0, *np.unique(np.quantile(lengths, np.linspace(0, 1, 9))).astype(int).tolist()]
        tried = _by_span(
            [_split_at(documents, ranks, block, terms, limit) for limit in limits], terms
        )
        tried += [_moved(a, terms) for a in (*dealt, *tried[:_MOVED])]
    tried.append(per_document(documents, ranks, block, terms))
    most = _most_tokens(terms, sum(documents), block)
    fitting = [a for a in tried if (a.tokens <= most).all()]
    return _by_span(fitting or tried, terms)[0]


def _most_tokens(terms: Terms, tokens: float, largest: float) -> F64:
    """The most tokens of each rank: its share, and the largest piece more, so that all have a place."""
    most: F64 = terms.shares * tokens * terms.slack + largest * (terms.shares > 0)
    return most


def _by_span(tried: Sequence[Assignment], terms: Terms) -> list[Assignment]:
    """The fastest first; of equal assignments one."""
    unlike = {(a.owner.tobytes(), a.blocks.size.tobytes()): a for a in reversed(tried)}
    spans = {a: a.span(terms.speeds, terms.byte_pairs) for a in reversed(unlike.values())}
    return sorted(spans, key=lambda a: spans[a])


def _dealt(
    documents: Sequence[int], ranks: int, block: int, terms: Terms, turn: bool
) -> Assignment:
    """Blocks to ranks in turn, or a stretch of neighbours to each: where moving starts, and no more."""
    blocks = replace(cut(documents, block), causal=terms.causal)
    usable, count = np.flatnonzero(terms.shares > 0), np.arange(len(blocks))
    place = count % len(usable) if turn else count * len(usable) // len(blocks)
    return Assignment(blocks, usable[place], ranks)


def _moved(assignment: Assignment, terms: Terms) -> Assignment:
    """With blocks moved to where fewer keys have to be sent."""
    sizes = assignment.blocks.size
    room = _most_tokens(terms, sizes.sum(), sizes.max())
    return Moving(assignment, terms.speeds, terms.byte_pairs, room).moved()


def _split_at(
    documents: Sequence[int], ranks: int, block: int, terms: Terms, limit: int
) -> Assignment:
    """Documents up to a limit stay whole."""
    blocks = replace(cut(documents, block), causal=terms.causal)
    short = np.asarray(documents)[blocks.document] <= limit
    unit = np.where(short, blocks.document, len(documents) + np.arange(len(blocks)))
    return Assignment(blocks, _packed(blocks, unit, terms), ranks)


def _packed(blocks: Blocks, unit: I64, terms: Terms) -> I64:
    """The owner of every block; blocks of one unit stay together."""
    _, number = np.unique(unit, return_inverse=True)
    work, tokens = (
        np.bincount(number, of).astype(np.float64) for of in (blocks.pairs, blocks.size)
    )
    packing = _Packing(work, tokens, terms)
    packing.largest_first()
    packing.improved()
    owner: I64 = packing.owner[number]
    return owner


class _Packing:
    """Units of work, and ranks with a speed and room for tokens."""

    def __init__(self, work: F64, tokens: F64, terms: Terms) -> None:
        self.work, self.tokens, self.speeds = work, tokens, terms.speeds
        self.usable = terms.shares > 0
        self.worth = 1e-9 if np.ptp(terms.speeds) else _WORTH
        self.room = _most_tokens(terms, tokens.sum(), tokens.max())
        self.owner = np.zeros(len(work), np.int64)

    def largest_first(self) -> None:
        """Every unit, the most work first, to the rank that is done first and has room for it."""
        heap = [(0.0, rank) for rank in np.flatnonzero(self.usable).tolist()]
        heapq.heapify(heap)
        for one in np.argsort(-self.work, kind="stable").tolist():
            skipped = []
            while True:
                load, rank = heapq.heappop(heap)
                if self.tokens[one] <= self.room[rank] or not heap:
                    break
                skipped.append((load, rank))
            self.owner[one] = rank
            self.room[rank] -= self.tokens[one]
            heapq.heappush(heap, (load + self.work[one] / self.speeds[rank], rank))
            for entry in skipped:
                heapq.heappush(heap, entry)

    def improved(self) -> None:
        """Moves a unit of the busiest rank, or trades it for another's, as long as that makes it less busy.

        Where neither does, few units of it and of another rank are divided anew in the best way.
        """
        for _ in range(_MOST_TRADES):
            done = np.bincount(self.owner, self.work, len(self.speeds)) / self.speeds
            even = self.work.sum() / self.speeds[self.usable].sum()
            if done.max() <= even * (1 + _EVEN) or not (self._traded(done) or self._divided(done)):
                return

    def _traded(self, done: F64) -> bool:
        """The best trade of the busiest rank; a trade for nothing is a move."""
        busy = int(done.argmax())
        mine, others = (np.flatnonzero(w) for w in (self.owner == busy, self.owner != busy))
        free = np.flatnonzero(self.usable & (np.arange(len(done)) != busy))
        partner = np.concatenate([self.owner[others], free])
        less = self.work[mine][:, None] - np.concatenate([self.work[others], np.zeros(len(free))])
        room = self.tokens[mine][:, None] - np.concatenate(
            [self.tokens[others], np.zeros(len(free))]
        )
        fits = (room <= self.room[partner]) & (-room <= self.room[busy])
        after = np.maximum(
            done[busy] - less / self.speeds[busy], done[partner] + less / self.speeds[partner]
        )
        after = np.where(fits, after, np.inf)
        if not after.size or after.min() >= done[busy] * (1 - self.worth):
            return False
        i, j = (int(n) for n in np.unravel_index(after.argmin(), after.shape))
        other = int(partner[j])
        self.owner[mine[i]] = other
        if j < len(others):
            self.owner[others[j]] = busy
        self.room[other] -= room[i, j]
        self.room[busy] += room[i, j]
        return True

    def _divided(self, done: F64) -> bool:
        """The units of the busiest rank and of one or two others, in the best of all divisions among them."""
        busy = int(done.argmax())
        # Others may be as busy, so that it need not be the last of them.
        idle = [r for r in np.argsort(done).tolist() if self.usable[r] and r != busy]
        few = itertools.chain(
            ((busy, other) for other in idle),
            ((busy, *pair) for pair in itertools.combinations(idle[:_PARTNERS], 2)),
        )
        return any(self._divided_among(np.array(ranks), done[busy]) for ranks in few)

    def _divided_among(self, ranks: I64, most: float) -> bool:
        units = np.flatnonzero((self.owner[:, None] == ranks).any(axis=1))
        count = len(ranks) ** len(units)
        if count > _DIVISIONS:
            return False
        work, tokens = (_sums(of[units], len(ranks)) for of in (self.work, self.tokens))
        held = np.array([self.tokens[self.owner == rank].sum() for rank in ranks])
        after = (work / self.speeds[ranks][:, None]).max(axis=0)
        after[(tokens > (self.room[ranks] + held)[:, None]).any(axis=0)] = np.inf
        best = int(after.argmin())
        if after[best] >= most * (1 - self.worth):
            return False
        self.owner[units] = ranks[best // len(ranks) ** np.arange(len(units)) % len(ranks)]
        self.room[ranks] -= tokens[:, best] - held
        return True


def _sums(of: F64, ranks: int) -> F64:
    """What each of a few ranks gets, in every division of units among them.

    Divisions are numbered so that digit k, in base `ranks`, is the rank of unit k.
    """
    sums = np.zeros((ranks, 1))
    for one in of:
        sums = np.repeat(sums[:, None], ranks, axis=1)
        sums[np.arange(ranks), np.arange(ranks)] += one
        sums = sums.reshape(ranks, -1)
    return sums


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
