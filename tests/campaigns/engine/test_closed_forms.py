"""Formulas with their values worked out."""

from __future__ import annotations

import math

import pytest

from chakrakit.campaigns.engine import (
    daly_interval,
    enough_nodes,
    expected_failures,
    expected_seconds,
    waiting_share,
    young_interval,
)


def test_daly_corrects_young_and_ends_at_the_mean_time_between_failures():
    assert young_interval(50, 10_000) == 1000
    root, part = math.sqrt(50 / 20_000), 50 / 20_000
    assert daly_interval(50, 10_000) == pytest.approx(1000 * (1 + root / 3 + part / 9) - 50)
    assert daly_interval(500, 200) == 200
    assert young_interval(5, math.inf) == math.inf


def test_google_s_superpod_gives_130_of_144_cubes_with_95_percent():
    """With the availability that makes 130 just enough, 131 is not."""
    up = 0.935
    assert enough_nodes(144, 130, up) > 0.95 > enough_nodes(144, 131, up)


def test_without_failures_worth_counting_the_time_is_work_and_checkpoints():
    """A year between failures: 1,000 s of work, nine checkpoints of 5 s, and hardly anything more."""
    year = 365 * 86_400
    assert expected_seconds(1000, 100, 5, 60, year) == pytest.approx(1045, rel=1e-4)
    assert expected_failures(1000, 100, 5, 60, year) == pytest.approx(1045 / year, rel=1e-4)


def test_work_of_one_stretch_takes_what_daly_s_model_says():
    """M·e^(R/M)·(e^(W/M) − 1), with all of them 100 s: 100·e·(e − 1)."""
    assert expected_seconds(100, 100, 5, 100, 100) == pytest.approx(100 * math.e * (math.e - 1))


def test_erlang_s_loss_formula():
    """With a load of 2: one place is full 2/3 of the time, two places 2/5."""
    assert waiting_share(20, 0, 100, 10) == pytest.approx(2 / 3)
    assert waiting_share(20, 1, 100, 10) == pytest.approx(2 / 5)
    assert waiting_share(20, 1, 100, 0) == 0


def test_enough_nodes_of_three():
    """Two of three work with 3·0.9²·0.1 + 0.9³."""
    assert enough_nodes(3, 2, 0.9) == pytest.approx(0.243 + 0.729)
    assert enough_nodes(3, 0, 0.9) == pytest.approx(1)
