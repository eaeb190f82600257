"""The horizon leaves room for sums, and spans are exact at the ends of 64 bits."""

from __future__ import annotations

import numpy as np

from chakrakit.trace.timing import CLOCK_NS, HORIZON_DAYS, HORIZON_NS, HORIZON_PS, span_of


def test_any_two_times_within_the_horizon_can_be_added() -> None:
    assert 2 * HORIZON_PS < 2**63 <= 3 * HORIZON_PS
    assert 2 * CLOCK_NS < 2**63
    assert HORIZON_NS == HORIZON_PS // 1000
    assert HORIZON_DAYS == 50


def test_a_span_does_not_wrap() -> None:
    low, high = np.array([-(2**63)], np.int64), np.array([2**63 - 1], np.int64)
    assert span_of(low, high) == 2**64 - 1
    assert span_of(low[:0], high[:0]) == 0
