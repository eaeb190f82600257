"""The algorithms of collectives, each as CollectiveSteps for n members.

The docstring of every function describes its transfers;
`tests/simulator/collectives/test_algorithms.py` carries values through all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from chakrakit.arrays import I64
from chakrakit.simulator.collectives.collective_steps import (
    SWITCH,
    CollectiveSteps,
    TransferStep,
    step,
)


@dataclass(frozen=True, eq=False)
class BinaryTree:
    """A tree of members: `parent[i]` is the parent of `child[i]`; `depth` is by member, 0 at the root."""

    child: I64
    parent: I64
    depth: I64

    @property
    def height(self) -> int:
        """Edges from the root to the deepest member."""
        return int(self.depth.max())


def double_tree(n: int) -> tuple[BinaryTree, BinaryTree]:
    """The two trees of an all-reduce: one whose inner members are odd, and one where they are even.

    The second is the first renumbered: the mirror image where n is even, else shifted by one.
    """
    parent = in_order_tree(n)
    i = np.arange(n)
    renumbered = n - 1 - i if n % 2 == 0 else (i + 1) % n
    second_parent = np.full(n, -1, np.int64)
    second_parent[renumbered] = np.where(parent >= 0, renumbered[parent], -1)
    return _tree(parent), _tree(second_parent)


def in_order_tree(n: int) -> I64:
    """The parents in a tree with members numbered in order: perfect on the left, the rest on the right."""
    parent = np.full(n, -1, np.int64)
    spans = [(0, n, -1)]
    while spans:
        low, high, above = spans.pop()
        if low >= high:
            continue
        root = low + (1 << ((high - low).bit_length() - 1)) - 1
        parent[root] = above
        spans += [(low, root, root), (root + 1, high, root)]
    return parent


def _tree(parent: I64) -> BinaryTree:
    depth = np.zeros(len(parent), np.int64)
    at = parent.copy()
    while (at >= 0).any():
        depth += at >= 0
        at = np.where(at >= 0, parent[at], -1)
    child = np.flatnonzero(parent >= 0)
    return BinaryTree(child, parent[child], depth)


def _all(n: int) -> I64:
    return np.arange(n, dtype=np.int64)


def _pairs(n: int) -> tuple[I64, I64]:
    """Every ordered pair of different members."""
    src, dst = np.repeat(_all(n), n), np.tile(_all(n), n)
    return src[src != dst], dst[src != dst]


# --- ring ---------------------------------------------------------------------------------------


def _ring_reduce(n: int) -> TransferStep:
    i = _all(n)
    return step(i, (i + 1) % n, (i - 1) % n, 1, n, reduce=True, repeat=n - 1, shift=-1)


def _ring_gather(n: int) -> TransferStep:
    i = _all(n)
    return step(i, (i + 1) % n, i, 1, n, repeat=n - 1, shift=-1)


def ring_reduce_scatter(n: int) -> CollectiveSteps:
    """n-1 rounds; everyone passes the sum so far of one piece to the next member."""
    return CollectiveSteps(n, n, (_ring_reduce(n),), _all(n), "ring")


def ring_all_gather(n: int) -> CollectiveSteps:
    """n-1 rounds; everyone passes on the piece it received last."""
    return CollectiveSteps(n, n, (_ring_gather(n),), _all(n), "ring")


def ring_all_reduce(n: int) -> CollectiveSteps:
    """Reduce-scatter, then all-gather, around the ring."""
    return CollectiveSteps(n, n, (_ring_reduce(n), _ring_gather(n)), name="ring")


def _both_ways(n: int, steps: Sequence[TransferStep], owns: bool) -> CollectiveSteps:
    """The steps of a ring with the first half of every piece forwards and the second half backwards."""
    halves = []
    for one in steps:
        forward = replace(one, first=2 * one.first, modulus=2 * n, shift=2 * one.shift)
        back = 2 * ((2 * one.src - one.first) % n) + 1
        halves += [
            forward,
            replace(forward, dst=(one.src - 1) % n, first=back, shift=-forward.shift, joined=True),
        ]
    owned = 2 * _all(n if owns else 0)
    return CollectiveSteps(n, 2 * n, tuple(halves), owned, "two-way-ring")


def two_way_reduce_scatter(n: int) -> CollectiveSteps:
    """The ring's reduce-scatter with half of the data each way."""
    return _both_ways(n, [_ring_reduce(n)], owns=True)


def two_way_all_gather(n: int) -> CollectiveSteps:
    """The ring's all-gather with half of the data each way."""
    return _both_ways(n, [_ring_gather(n)], owns=True)


def two_way_all_reduce(n: int) -> CollectiveSteps:
    """The ring's all-reduce with half of the data each way."""
    return _both_ways(n, [_ring_reduce(n), _ring_gather(n)], owns=False)


def ring_broadcast(n: int, chunks: int = 8, root: int = 0) -> CollectiveSteps:
    """A chain from the root, in chunks, so that all links work at once."""
    ticks = []
    for t in range(chunks + n - 2):
        hop = np.arange(max(0, t - chunks + 1), min(n - 1, t + 1))
        ticks.append(step((root + hop) % n, (root + hop + 1) % n, t - hop, 1, chunks))
    return CollectiveSteps(n, chunks, _merged(ticks), name="ring")


def ring_reduce_to(n: int, chunks: int = 8, root: int = 0) -> CollectiveSteps:
    """The chain of the broadcast backwards, adding up on the way to the root."""
    return reverse_to_reduce(ring_broadcast(n, chunks, root))


# --- direct -------------------------------------------------------------------------------------


def direct_reduce_scatter(n: int) -> CollectiveSteps:
    """Everyone sends every other member its piece, all at once."""
    src, dst = _pairs(n)
    return CollectiveSteps(n, n, (step(src, dst, dst, 1, n, reduce=True),), _all(n), "direct")


def direct_all_gather(n: int) -> CollectiveSteps:
    """Everyone sends its piece to every other member, all at once."""
    src, dst = _pairs(n)
    return CollectiveSteps(n, n, (step(src, dst, src, 1, n),), _all(n), "direct")


def direct_all_reduce(n: int) -> CollectiveSteps:
    """Direct reduce-scatter, then direct all-gather."""
    parts = direct_reduce_scatter(n), direct_all_gather(n)
    return CollectiveSteps(n, n, parts[0].steps + parts[1].steps, name="direct")


def direct_all_to_all(n: int) -> CollectiveSteps:
    """All n(n-1) messages at once. Piece i·n + j goes from i to j."""
    src, dst = _pairs(n)
    return CollectiveSteps(n, n * n, (step(src, dst, src * n + dst, 1, n * n),), name="direct")


def pairwise_all_to_all(n: int) -> CollectiveSteps:
    """n-1 steps; in step k everyone sends to the member k places after it."""
    i = _all(n)
    steps = [step(i, (i + k) % n, i * n + (i + k) % n, 1, n * n) for k in range(1, n)]
    return CollectiveSteps(n, n * n, tuple(steps), name="pairwise")


def direct_broadcast(n: int, root: int = 0) -> CollectiveSteps:
    """The root sends everything to everyone at once."""
    leaves = np.delete(_all(n), root)
    return CollectiveSteps(n, 1, (step(np.full(n - 1, root), leaves, 0, 1, 1),), name="direct")


def direct_reduce_to(n: int, root: int = 0) -> CollectiveSteps:
    """Everyone sends everything to the root at once."""
    return reverse_to_reduce(direct_broadcast(n, root))


def direct_scatter(n: int, root: int = 0) -> CollectiveSteps:
    """The root sends each member its piece at once."""
    leaves = np.delete(_all(n), root)
    moves = (step(np.full(n - 1, root), leaves, leaves, 1, n),)
    return CollectiveSteps(n, n, moves, _all(n), "direct")


def direct_gather(n: int, root: int = 0) -> CollectiveSteps:
    """Everyone sends its piece to the root at once."""
    leaves = np.delete(_all(n), root)
    moves = (step(leaves, np.full(n - 1, root), leaves, 1, n),)
    return CollectiveSteps(n, n, moves, _all(n), "direct")


# --- halving and doubling -----------------------------------------------------------------------


def doubling_all_gather(n: int) -> CollectiveSteps:
    """⌈log2 n⌉ steps, every member sending all it has, or what is still missing in the last one.

    With n a power of two, partners differ in one bit. Otherwise member q, which holds the pieces q, q+1,
    …, sends the first of them to member q - c, where c is how many it holds: no member is left over.
    """
    i, steps, have = _all(n), [], 1
    while have < n:
        if n & (n - 1) == 0:
            steps.append(step(i, i ^ have, i // have * have, have, n))
        else:
            steps.append(step(i, (i - have) % n, i, min(have, n - have), n))
        have *= 2
    return CollectiveSteps(n, n, tuple(steps), _all(n), "halving-doubling")


def halving_reduce_scatter(n: int) -> CollectiveSteps:
    """The all-gather backwards: what was copied one way is added up the other way."""
    return reverse_to_reduce(doubling_all_gather(n))


def halving_doubling_all_reduce(n: int) -> CollectiveSteps:
    """Recursive halving, then recursive doubling; any n."""
    steps = halving_reduce_scatter(n).steps + doubling_all_gather(n).steps
    return CollectiveSteps(n, n, steps, name="halving-doubling")


def binomial_broadcast(n: int, root: int = 0) -> CollectiveSteps:
    """⌈log2 n⌉ steps; whoever has the data sends it on."""
    steps, have = [], 1
    while have < n:
        src = _all(min(have, n - have))
        steps.append(step((src + root) % n, (src + have + root) % n, 0, 1, 1))
        have *= 2
    return CollectiveSteps(n, 1, tuple(steps), name="tree")


def binomial_reduce_to(n: int, root: int = 0) -> CollectiveSteps:
    """The broadcast backwards, adding up."""
    return reverse_to_reduce(binomial_broadcast(n, root))


def dissemination_barrier(n: int) -> CollectiveSteps:
    """⌈log2 n⌉ steps of empty messages to the member 1, 2, 4, … places after."""
    i, steps, reach = _all(n), [], 1
    while reach < n:
        steps.append(step(i, (i + reach) % n, 0, 0, 1))
        reach *= 2
    return CollectiveSteps(n, 1, tuple(steps), name="dissemination")


def reverse_to_reduce(moves: CollectiveSteps) -> CollectiveSteps:
    """A schedule that copies, run backwards so that it adds up."""
    steps = []
    for s in reversed(moves.steps):
        last = s.first + (s.repeat - 1) * s.shift
        steps.append(
            TransferStep(
                src=s.dst,
                dst=s.src,
                first=last,
                count=s.count,
                reduce=True,
                modulus=s.modulus,
                base=s.base,
                repeat=s.repeat,
                shift=-s.shift,
            )
        )
    return CollectiveSteps(moves.n, moves.pieces, tuple(steps), moves.owned, moves.name)


# --- double binary tree -------------------------------------------------------------------------


def tree_all_reduce(n: int, chunks: int = 8) -> CollectiveSteps:
    """Two trees, each reducing and broadcasting half of the data in chunks, up and down at once.

    Every member but one or two is a leaf in one tree and has children in the other. Chunk j climbs the
    edge from depth d in tick j + h - d and goes down from depth d in tick j + h + d, so that a tree of
    height h needs chunks + 2h - 1 ticks.
    """
    trees = double_tree(n)
    height = max(t.height for t in trees)
    ticks = []
    for t in range(chunks + 2 * height - 1):
        ups = [_climb(tree, t, height, chunks, k) for k, tree in enumerate(trees)]
        downs = [_descend(tree, t, height, chunks, k) for k, tree in enumerate(trees)]
        up, down = _concatenated(ups), _concatenated(downs)
        rising = step(up[0], up[1], up[2], 1, 2 * chunks, reduce=True)
        ticks.append((rising, step(down[0], down[1], down[2], 1, 2 * chunks, joined=True)))
    return CollectiveSteps(n, 2 * chunks, _merged_pairs(ticks), name="double-tree")


def _concatenated(parts: list[tuple[I64, I64, I64]]) -> tuple[I64, I64, I64]:
    src, dst, piece = (np.concatenate([p[k] for p in parts]) for k in range(3))
    return src, dst, piece


def _climb(tree: BinaryTree, t: int, height: int, chunks: int, half: int) -> tuple[I64, I64, I64]:
    chunk = t - (height - tree.depth[tree.child])
    moving = (chunk >= 0) & (chunk < chunks)
    return tree.child[moving], tree.parent[moving], half * chunks + chunk[moving]


def _descend(tree: BinaryTree, t: int, height: int, chunks: int, half: int) -> tuple[I64, I64, I64]:
    chunk = t - height - (tree.depth[tree.child] - 1)
    moving = (chunk >= 0) & (chunk < chunks)
    return tree.parent[moving], tree.child[moving], half * chunks + chunk[moving]


def _same(a: TransferStep, b: TransferStep) -> bool:
    """Whether step b repeats step a, one piece further."""
    return (
        len(a.src) == len(b.src)
        and bool((a.src == b.src).all())
        and bool((a.dst == b.dst).all())
        and bool((b.first == a.first + a.repeat).all())
    )


def _again(a: TransferStep) -> TransferStep:
    return TransferStep(
        src=a.src,
        dst=a.dst,
        first=a.first,
        count=a.count,
        reduce=a.reduce,
        modulus=a.modulus,
        base=a.base,
        repeat=a.repeat + 1,
        shift=1,
        after=a.after,
        joined=a.joined,
    )


def _merged(ticks: list[TransferStep]) -> tuple[TransferStep, ...]:
    """The steps of all ticks; equal ticks in a row become one repeated step."""
    steps: list[TransferStep] = []
    for tick in ticks:
        if steps and _same(steps[-1], tick):
            steps[-1] = _again(steps[-1])
        else:
            steps.append(tick)
    return tuple(steps)


def _merged_pairs(ticks: list[tuple[TransferStep, TransferStep]]) -> tuple[TransferStep, ...]:
    pairs: list[tuple[TransferStep, TransferStep]] = []
    for tick in ticks:
        if pairs and all(_same(a, b) for a, b in zip(pairs[-1], tick, strict=True)):
            pairs[-1] = (_again(pairs[-1][0]), _again(pairs[-1][1]))
        else:
            pairs.append(tick)
    return tuple(s for pair in pairs for s in pair)


# --- in the switch ------------------------------------------------------------------------------


def switch_all_reduce(n: int) -> CollectiveSteps:
    """Everyone sends everything to the switch, which sends the sum back while data still arrives."""
    i, switch = _all(n), np.full(n, SWITCH)
    up = step(i, switch, 0, 1, 1, reduce=True)
    return CollectiveSteps(n, 1, (up, step(switch, i, 0, 1, 1, joined=True)), name="in-switch")


def switch_reduce_scatter(n: int) -> CollectiveSteps:
    """Everyone sends everything to the switch and receives its piece of the sum."""
    i, switch = _all(n), np.full(n, SWITCH)
    up = step(i, switch, 0, n, n, reduce=True)
    return CollectiveSteps(n, n, (up, step(switch, i, i, 1, n, joined=True)), i, "in-switch")


def switch_all_gather(n: int) -> CollectiveSteps:
    """Everyone sends its piece to the switch, which sends everything to everyone."""
    i, switch = _all(n), np.full(n, SWITCH)
    up = step(i, switch, i, 1, n)
    return CollectiveSteps(n, n, (up, step(switch, i, 0, n, n, joined=True)), i, "in-switch")
