"""An array that grows: all that was added, in order, and nothing left once it is contents."""

from __future__ import annotations

import numpy as np

from chakrakit.insight.critical_path.model import GrowingArray


def test_what_is_added_is_there_in_order_and_taken_once():
    grown = GrowingArray(np.int64)
    for i in range(100):
        grown.add(np.arange(i % 3) + i)
    expected = [i + j for i in range(100) for j in range(i % 3)]
    assert len(grown) == len(expected)
    contents = grown.take()
    assert contents.tolist() == expected
    assert contents.dtype == np.int64
    assert (len(grown), len(grown.take())) == (0, 0)


def test_what_was_taken_does_not_change_when_more_comes():
    grown = GrowingArray(np.int8)
    grown.add(np.array([1, 2], np.int8))
    contents = grown.take()
    grown.add(np.array([7], np.int8))
    assert contents.tolist() == [1, 2]
    assert grown.take().tolist() == [7]
