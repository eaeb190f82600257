"""Means over histories, and how sure they are."""

from __future__ import annotations

import math

import pytest

from chakrakit.campaigns.history import HistoryOutcome
from chakrakit.campaigns.result import Spread, mean_failures, mean_lost


def test_the_spread_of_four_histories():
    """Of 1, 2, 3, 4: the deviation is √(5/3), its share of the mean's 1.96 · √(5/3) / 2."""
    found = Spread.of([1, 2, 3, 4])
    half = 1.96 * math.sqrt(5 / 3) / 2
    assert found.mean == 2.5
    assert (found.p5, found.p95) == pytest.approx((1.15, 3.85))
    assert found.ci95 == pytest.approx((2.5 - half, 2.5 + half))


def test_equal_histories_have_exactly_their_value():
    third = 1 / 3
    assert Spread.of([third] * 7) == Spread(mean=third, p5=third, p95=third, ci95=(third, third))
    assert Spread.of([5]).ci95 == (5, 5)


def test_lost_time_is_in_hours():
    found = mean_lost([HistoryOutcome(rework=3600, restart=7200), HistoryOutcome(waiting=3600)])
    assert (found.rework, found.restart, found.waiting, found.checkpoint) == (0.5, 1.0, 0.5, 0.0)


def test_causes_come_with_the_most_frequent_first():
    outcomes = [
        HistoryOutcome(failures={"gpu": 1, "link": 4}),
        HistoryOutcome(failures={"gpu": 2, "disk": 3}),
    ]
    assert list(mean_failures(outcomes).items()) == [("link", 2.0), ("disk", 1.5), ("gpu", 1.5)]
