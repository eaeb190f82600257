"""The two binary trees of a tree all-reduce."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chakrakit.arrays import I64


@dataclass(frozen=True, eq=False)
class Tree:
    """`child[i]` hangs on `parent[i]`; `depth` is by member, 0 at the root."""

    child: I64
    parent: I64
    depth: I64

    @property
    def height(self) -> int:
        """Edges from the root to the deepest member."""
        return int(self.depth.max())


def double_tree(n: int) -> tuple[Tree, Tree]:
    """A tree whose inner members are odd numbers, and the same tree renumbered so that they are even.

    With n even the second is the mirror image, with n odd it is shifted by one.
    """
    parent = in_order_tree(n)
    i = np.arange(n)
    renumbered = n - 1 - i if n % 2 == 0 else (i + 1) % n
    other = np.full(n, -1, np.int64)
    other[renumbered] = np.where(parent >= 0, renumbered[parent], -1)
    return _tree(parent), _tree(other)


def in_order_tree(n: int) -> I64:
    """Parents of members numbered in order: a perfect tree on the left, the rest on the right."""
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


def _tree(parent: I64) -> Tree:
    depth = np.zeros(len(parent), np.int64)
    at = parent.copy()
    while (at >= 0).any():
        depth += at >= 0
        at = np.where(at >= 0, parent[at], -1)
    child = np.flatnonzero(parent >= 0)
    return Tree(child, parent[child], depth)
