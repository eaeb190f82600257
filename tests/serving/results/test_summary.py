"""Figures over requests: percentiles, histograms of gaps, and who met the service level."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.serving.results import ServiceLevel
from chakrakit.serving.results.summary import gap_spread, within_level


def test_percentiles_of_gaps_are_the_middles_of_their_bins() -> None:
    """64 bins per octave of picoseconds: three gaps just above 2^30 ps, one just above 2^31 ps."""
    gaps = np.zeros(64 * 32, np.int64)
    gaps[64 * 30], gaps[64 * 31] = 3, 1
    middle = 1 + 0.5 / 64
    short, long = 2**30 * middle * 1e-9, 2**31 * middle * 1e-9
    found = gap_spread([{"gaps": gaps, "gap_time": 5.6e9}, {"gaps": [], "gap_time": 0.0}])
    assert found.mean == pytest.approx(1.4)
    assert (found.p50, found.p90, found.p99) == pytest.approx((short, long, long))
    assert gap_spread([{"gaps": [0, 0], "gap_time": 0.0}]) is None


def test_a_request_meets_every_bound_that_is_given() -> None:
    ttft, tpot, e2e = (
        np.array([1.0, 5.0, 1.0]),
        np.array([2.0, 2.0, 9.0]),
        np.array([7.0, 7.0, 7.0]),
    )
    assert within_level(ServiceLevel(ttft=1.0, tpot=2.0), ttft, tpot, e2e).tolist() == [
        True,
        False,
        False,
    ]
    assert within_level(ServiceLevel(), ttft, tpot, e2e).tolist() == [True] * 3
    assert within_level(ServiceLevel(e2e=6.9), ttft, tpot, e2e).tolist() == [False] * 3
