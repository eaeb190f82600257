"""A set of ids, small where they are dense."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakrakit.trace.validation.graph import IdSet


def ids(*numbers):
    return np.array(numbers, np.uint64)


def test_what_was_added_is_there_and_nothing_else():
    found = IdSet()
    found.add(ids(3, 4, 5, 9))
    found.add(ids(7))
    assert found.contains(ids(2, 3, 5, 6, 7, 8, 9, 10)).tolist() == [
        False, True, True, False, True, False, True, False
    ]  # fmt: skip


def test_neighbours_take_one_range_whatever_their_order():
    found = IdSet()
    for start in (2000, 0, 1000):
        found.add(np.arange(start + 999, start - 1, -1, dtype=np.int64).astype(np.uint64))
    assert [len(first) for first, _ in found._runs] == [1]


def test_the_largest_and_the_smallest_id():
    found = IdSet()
    found.add(ids(0, 2**64 - 1))
    assert found.contains(ids(0, 1, 2**64 - 2, 2**64 - 1)).tolist() == [True, False, False, True]


def test_an_empty_set_has_nothing():
    found = IdSet()
    found.add(ids())
    assert found.contains(ids(1)).tolist() == [False]


@pytest.mark.parametrize("seed", range(3))
def test_the_same_as_pythons_own(seed):
    chance = np.random.default_rng(seed)
    found, plain = IdSet(), set()
    for _ in range(20):
        some = chance.integers(0, 300, 30).astype(np.uint64)
        found.add(some)
        plain |= set(some.tolist())
    every = np.arange(320, dtype=np.uint64)
    assert found.contains(every).tolist() == [int(i) in plain for i in every]


@given(
    st.lists(
        st.lists(st.integers(0, 60) | st.integers(2**64 - 5, 2**64 - 1), max_size=8), max_size=8
    )
)
def test_a_set_of_ids_is_a_set(pieces):
    ids, expected = IdSet(), set()
    probe = np.array([*range(70), *range(2**64 - 6, 2**64)], np.uint64)
    for piece in pieces:
        ids.add(np.array(piece, np.uint64))
        expected |= set(piece)
    assert ids.contains(probe).tolist() == [int(p) in expected for p in probe]
