"""Formulas with their values worked out."""

from __future__ import annotations

import math

import pytest

from chakrakit.campaigns.checkpoints import daly_interval, young_interval


def test_daly_corrects_young_and_ends_at_the_mean_time_between_failures():
    assert young_interval(50, 10_000) == 1000
    root, part = math.sqrt(50 / 20_000), 50 / 20_000
    assert daly_interval(50, 10_000) == pytest.approx(1000 * (1 + root / 3 + part / 9) - 50)
    assert daly_interval(500, 200) == 200
    assert young_interval(5, math.inf) == math.inf
