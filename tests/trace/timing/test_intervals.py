"""Interval arithmetic against painting every nanosecond."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chakrakit.trace.timing import Intervals

pieces = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=12)


def made(pairs: list[tuple[int, int]]) -> Intervals:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return Intervals.of(table[:, 0], table[:, 1])


def painted(pairs: list[tuple[int, int]]) -> set[int]:
    return {t for a, b in pairs for t in range(a, b)}


def points(intervals: Intervals) -> set[int]:
    return {
        t
        for a, b in zip(intervals.start.tolist(), intervals.end.tolist(), strict=True)
        for t in range(a, b)
    }


@given(pieces, pieces)
def test_union_intersection_and_difference(a, b):
    x, y = made(a), made(b)
    assert points(x | y) == painted(a) | painted(b)
    assert points(x & y) == painted(a) & painted(b)
    assert points(x - y) == painted(a) - painted(b)
    assert x.total == len(painted(a))


@given(pieces, st.integers(0, 40), st.integers(0, 40))
def test_gaps_and_cuts_make_up_the_whole(a, low, high):
    x = made(a)
    window = set(range(low, high))
    assert points(x.gaps(low, high)) == window - painted(a)
    assert points(x.cut(low, high)) == window & painted(a)


@given(pieces, pieces)
def test_share_of_each(a, b):
    table = np.array(b, np.int64).reshape(-1, 2)
    ordered = np.sort(table, axis=1)
    share = made(a).share_of(ordered[:, 0], ordered[:, 1])
    assert share.tolist() == [len(painted(a) & set(range(lo, hi))) for lo, hi in ordered.tolist()]


@given(pieces)
def test_intervals_are_sorted_disjoint_and_do_not_touch(a):
    x = made(a)
    assert (x.start < x.end).all()
    assert (x.start[1:] > x.end[:-1]).all()
