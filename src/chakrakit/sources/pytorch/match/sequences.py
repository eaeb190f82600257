"""Two recordings of the same work laid side by side: which entry of one is which of the other."""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import I32, I64

_LOOK_AHEAD = 256
_AGREE = 3


def align(left: I32, right: I32) -> tuple[I64, I64]:
    """Positions in `left` and `right` that hold the same name in the same order.

    Equal stretches are taken whole; after a difference both sides are searched for the next place
    where a few names in a row agree, at most 256 entries on, and the nearest such place wins. Linear in the
    lengths, unlike a longest common subsequence, and the same for recordings of one program.
    """
    pairs: list[tuple[int, int, int]] = []
    a = b = 0
    while a < len(left) and b < len(right):
        length = _equal_run(left[a:], right[b:])
        if length:
            pairs.append((a, b, length))
            a, b = a + length, b + length
            continue
        step = _resynchronize(left[a : a + _LOOK_AHEAD], right[b : b + _LOOK_AHEAD])
        a, b = a + step[0], b + step[1]
    if not pairs:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return (
        np.concatenate([np.arange(a, a + n) for a, _, n in pairs]),
        np.concatenate([np.arange(b, b + n) for _, b, n in pairs]),
    )


def _equal_run(left: I32, right: I32) -> int:
    n = min(len(left), len(right))
    block = 1024
    for begin in range(0, n, block):
        end = min(begin + block, n)
        differs = left[begin:end] != right[begin:end]
        if differs.any():
            return begin + int(differs.argmax())
        block *= 2 if block < 1 << 20 else 1
    return n


def _resynchronize(left: I32, right: I32) -> tuple[int, int]:
    """How far to skip on each side; (1, 1) where nothing in sight agrees."""
    need = min(_AGREE, len(left), len(right))
    rows, columns = len(left) - need + 1, len(right) - need + 1
    same = np.ones((rows, columns), np.bool_)
    for i in range(need):
        same &= left[i : i + rows, None] == right[None, i : i + columns]
    hits = np.argwhere(same)
    if not len(hits):
        return 1, 1
    nearest = hits[hits.sum(axis=1).argmin()]
    return int(nearest[0]), int(nearest[1])
