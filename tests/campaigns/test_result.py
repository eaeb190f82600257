"""Means over histories, and how sure they are."""

from __future__ import annotations

import math

import pytest

import chakrakit as ck
from chakrakit.campaigns.history import HistoryOutcome
from chakrakit.campaigns.result import HistorySpread, days_interval, mean_failures, mean_lost


def test_the_spread_of_four_histories():
    """Of 1, 2, 3, 4: the deviation is √(5/3), its share of the mean's 1.96 · √(5/3) / 2."""
    found = HistorySpread.of([1, 2, 3, 4])
    half = 1.96 * math.sqrt(5 / 3) / 2
    assert found.mean == 2.5
    assert (found.p5, found.p95) == pytest.approx((1.15, 3.85))
    assert found.ci95 == pytest.approx((2.5 - half, 2.5 + half))


def test_equal_histories_have_exactly_their_value():
    third = 1 / 3
    assert HistorySpread.of([third] * 7) == HistorySpread(
        mean=third, p5=third, p95=third, ci95=(third, third)
    )
    assert HistorySpread.of([5]).ci95 == (5, 5)


def test_only_steps_of_use_are_longer_where_a_predicted_step_is():
    """Ten days, half of them steps of 1 s that may take 0.8 to 1.4: one day less, two days more."""
    days = HistorySpread.of([10.0, 10.0])
    assert days_interval(days, 0.5, 1.0, (0.8, 1.4)) == pytest.approx((9.0, 12.0))


def test_a_campaign_says_what_cost_its_days_and_how_sure_they_are():
    job = {
        "steps": 4000,
        "cluster": {"nodes": 1},
        "checkpoint": {"interval_steps": 10, "seconds": 2},
    }
    job |= {"failures": {"processes": [{"name": "gpu", "mtbf_hours": 5}]}}
    workload = {"model": "gpt3-125m", "plan": {"dp": 8}, "step": {"seq": 128, "global_batch": 8}}
    predicted = ck.campaign(job | {"workload": workload, "machine": "dgx-h100"}, histories=3)
    low, high = predicted.days_interval
    assert low < predicted.days.mean < high
    assert "were lost: checkpoint" in predicted.what_cost_the_days
    assert "a checkpoint every 20 steps saves" in predicted.what_cost_the_days
    given = ck.campaign(job | {"step_seconds": 1.0}, histories=3)
    assert given.days_interval is None


def test_a_campaign_without_checkpoints_and_failures_loses_nothing():
    job = {"steps": 100, "cluster": {"nodes": 1}, "step_seconds": 1.0}
    assert ck.campaign(job, histories=1).what_cost_the_days == (
        "nothing was lost: all of the time was steps of use"
    )


def test_lost_time_is_in_hours():
    found = mean_lost([HistoryOutcome(rework=3600, restart=7200), HistoryOutcome(waiting=3600)])
    assert (found.rework, found.restart, found.waiting, found.checkpoint) == (0.5, 1.0, 0.5, 0.0)


def test_causes_come_with_the_most_frequent_first():
    outcomes = [
        HistoryOutcome(failures={"gpu": 1, "link": 4}),
        HistoryOutcome(failures={"gpu": 2, "disk": 3}),
    ]
    assert list(mean_failures(outcomes).items()) == [("link", 2.0), ("disk", 1.5), ("gpu", 1.5)]


def test_what_was_of_use_is_the_rest_of_the_lost_time():
    """100 steps of 36 s, and after every tenth but the last 12 s of copying: 3,600 of 3,708 s."""
    job = {"steps": 100, "cluster": {"nodes": 1}, "step_seconds": 36.0}
    job |= {"checkpoint": {"interval_steps": 10, "seconds": 12}}
    found = ck.campaign(job, histories=1)
    assert found.days.mean == pytest.approx(3708 / 86400)
    assert found.effective_share == pytest.approx(3600 / 3708)
