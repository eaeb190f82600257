"""Blocks moved from rank to rank while that makes the rank that is done last be done earlier.

Packing by work alone does not see the keys. A move looks at those that two ranks receive, not at those that
they send, which others decide as well: whether it paid is for the whole assignment's span to say.
"""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import F64, I64, Mask
from chakrakit.workloads.blocks.exchange import Assignment

_MOST_MOVES = 2000
"""So that many thousands of blocks take seconds: 1,800 blocks on 64 ranks are settled after a thousand."""
_MOST_TRADES = 1 << 19
"""Pairs of blocks that are compared in one move, with some 150 bytes each: 10,000 blocks on 256 ranks have
390,000. Ranks that have more have blocks so small against all their work that giving one away is enough."""
_FEW = 1 << 15
"""Assignments that are all tried, in a few hundredths of a second."""
_LESS = 1 - 1e-9
"""Less by more than rounding."""


def few(assignment: Assignment) -> bool:
    """Whether all assignments of these blocks can be tried, so that where moving starts does not matter."""
    return bool(assignment.ranks ** len(assignment.blocks) <= _FEW)


class Moving:
    """An assignment that changes, with each rank's time.

    Of a document a rank receives what lies before its last block there and is not its own, without a causal
    mask all that is not its own: so a move changes the time of the two ranks that it is between alone.
    """

    def __init__(
        self, assignment: Assignment, speeds: F64, byte_pairs: float, most_tokens: F64
    ) -> None:
        self.blocks, self.ranks = assignment.blocks, assignment.ranks
        self.owner = assignment.owner.copy()
        self.speeds, self.byte_pairs = speeds, byte_pairs
        self.most_tokens = np.maximum(most_tokens, assignment.tokens)
        self.pairs = self.blocks.pairs
        self.work, self.tokens = assignment.work, assignment.tokens
        lengths = self.blocks.documents
        self.reach = self.blocks.start + self.blocks.size
        """Tokens of its document up to the end of a block; all of them without a causal mask."""
        if not self.blocks.causal:
            self.reach = lengths[self.blocks.document]
        shape = (len(lengths), self.ranks)
        self.held, self.end = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for document in range(len(lengths)):
            self._look(document, np.arange(self.ranks))
        self.received = (self.end - self.held).sum(axis=0)

    def _look(self, document: int, ranks: I64) -> None:
        """What ranks hold of a document, and how far into it their queries reach."""
        low, high = np.searchsorted(self.blocks.document, [document, document + 1])
        own = self.owner[low:high, None] == ranks
        self.held[document, ranks] = self.blocks.size[low:high] @ own
        self.end[document, ranks] = (self.reach[low:high, None] * own).max(axis=0)

    def times(self) -> F64:
        """When each rank is done, in pairs."""
        times: F64 = np.maximum(self.work / self.speeds, self.received * self.byte_pairs)
        return times

    def moved(self) -> Assignment:
        """The assignment after all moves that help; where there are few, the best of all assignments."""
        if few(Assignment(self.blocks, self.owner, self.ranks)):
            return Assignment(self.blocks, self._best_of_all(), self.ranks)
        for _ in range(_MOST_MOVES):
            if not self._move():
                break
        return Assignment(self.blocks, self.owner, self.ranks)

    def _best_of_all(self) -> I64:
        number = np.arange(self.ranks ** len(self.blocks))[:, None]
        owner: I64 = number // self.ranks ** np.arange(len(self.blocks)) % self.ranks
        document, size = self.blocks.document, self.blocks.size
        first = np.flatnonzero(np.r_[True, np.diff(document) > 0])
        # How many ranks have queries that meet a block, its own among them.
        met, reaches = np.zeros(owner.shape), []
        for rank in range(self.ranks):
            reach = np.maximum.reduceat((owner == rank) * self.reach, first, axis=1)
            met += reach[:, document] >= self.reach
            reaches.append(reach.sum(axis=1))
        done = np.zeros(len(owner))
        for rank, reach in enumerate(reaches):
            own = owner == rank
            tokens, sent = own @ size, (own * (met - 1)) @ size
            moved = np.maximum(reach - tokens, sent) * self.byte_pairs
            time = np.maximum(own @ self.pairs / self.speeds[rank], moved)
            done = np.maximum(done, np.where(tokens <= self.most_tokens[rank], time, np.inf))
        best: I64 = owner[done.argmin()]
        return best

    def _move(self) -> bool:
        """The best move of a block away from the rank that is done last, or the best trade of two."""
        times = self.times()
        last = int(times.argmax())
        mine, others = (np.flatnonzero(w) for w in (self.owner == last, self.owner != last))
        usable = np.flatnonzero((self.most_tokens > 0) & (np.arange(self.ranks) != last))
        if not len(usable):
            return False
        few_enough = len(mine) * len(others) <= _MOST_TRADES
        others = others if few_enough else others[:0]
        moves, trades = self._moves(last, mine, usable), self._trades(last, mine, others)
        best = min(float(after.min(initial=np.inf)) for after in (moves, trades))
        if best >= times[last] * _LESS:
            return False
        if moves.min(initial=np.inf) <= best:
            i, j = np.unravel_index(moves.argmin(), moves.shape)
            self._give(int(mine[i]), int(usable[j]))
        else:
            i, j = np.unravel_index(trades.argmin(), trades.shape)
            one, other = int(mine[i]), int(others[j])
            whose = int(self.owner[other])
            self._give(one, whose)
            self._give(other, last)
        return True

    def _end_without(self, some: I64, rank: int) -> I64:
        """How far a rank's queries reach into the document of each one of its own blocks, without it."""
        document, reach = self.blocks.document[some], self.reach[some]
        end = self.end[document, rank]
        same = np.r_[False, document[1:] == document[:-1]]
        before = np.where(same, np.r_[0, reach[:-1]], 0)
        if not self.blocks.causal:
            alone = self.held[document, rank] == self.blocks.size[some]
            before = np.where(alone, 0, reach)
        without: I64 = np.where(reach == end, before, end)
        return without

    def _with(self, some: I64, ranks: I64) -> I64:
        """What each rank receives more with each of the blocks, of which it has none."""
        document = self.blocks.document[some][:, None]
        end = self.end[document, ranks]
        more: I64 = np.maximum(end, self.reach[some][:, None]) - end
        return more - self.blocks.size[some][:, None]

    def _moves(self, last: int, mine: I64, usable: I64) -> F64:
        """When the later of two ranks is done, for each block that the last one gives another."""
        size = self.blocks.size[mine]
        end = self.end[self.blocks.document[mine], last]
        less = end - self._end_without(mine, last) - size
        more = self._with(mine, usable)
        fits = self.tokens[usable] + size[:, None] <= self.most_tokens[usable]
        return self._later(last, usable, self.pairs[mine][:, None], less[:, None], more, fits)

    def _trades(self, last: int, mine: I64, others: I64) -> F64:
        """The same for each block that is given for one of another's."""
        whose, document, size = self.owner[others], self.blocks.document, self.blocks.size
        my_document, its_document = document[mine][:, None], document[others]
        my_end, its_end = self.end[my_document, last], self.end[its_document, whose]
        my_rest = self._end_without(mine, last)[:, None]
        its_rest = np.zeros(len(others), np.int64)
        for rank in np.unique(whose).tolist():
            at = np.flatnonzero(whose == rank)
            its_rest[at] = self._end_without(others[at], rank)
        less = my_end - my_rest - self._with(others, np.array([last]))[:, 0] - size[mine][:, None]
        more = self._with(mine, whose) - (its_end - its_rest - size[others])
        # Within one document the block that comes counts where the one that goes no longer does.
        within = my_document == its_document
        grown = size[mine][:, None] - size[others]
        mine_then = np.maximum(my_rest, self.reach[others])
        its_then = np.maximum(its_rest, self.reach[mine][:, None])
        less = np.where(within, my_end - mine_then - grown, less)
        more = np.where(within, its_then - its_end - grown, more)
        fits = (self.tokens[whose] + grown <= self.most_tokens[whose]) & (
            self.tokens[last] - grown <= self.most_tokens[last]
        )
        work = self.pairs[mine][:, None] - self.pairs[others]
        return self._later(last, whose, work, less, more, fits)

    def _later(self, last: int, other: I64, work: F64, less: I64, more: I64, fits: Mask) -> F64:
        """When the later of the two is done, once work and keys to receive have moved."""
        own = np.maximum(
            (self.work[last] - work) / self.speeds[last],
            (self.received[last] - less) * self.byte_pairs,
        )
        its = np.maximum(
            (self.work[other] + work) / self.speeds[other],
            (self.received[other] + more) * self.byte_pairs,
        )
        after: F64 = np.where(fits, np.maximum(own, its), np.inf)
        return after

    def _give(self, block: int, to: int) -> None:
        of, document = int(self.owner[block]), int(self.blocks.document[block])
        both = np.array([of, to])
        self.received[both] -= (self.end - self.held)[document, both]
        self.owner[block] = to
        self._look(document, both)
        self.received[both] += (self.end - self.held)[document, both]
        size = self.blocks.size[block]
        self.work[both] += [-self.pairs[block], self.pairs[block]]
        self.tokens[both] += [-size, size]
