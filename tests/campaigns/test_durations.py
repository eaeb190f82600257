"""How long until something happens, drawn from a distribution."""

from __future__ import annotations

import math
from random import Random

import pytest

from chakrakit.campaigns.failures import Exponential, Fixed, Uniform, Weibull


class Half(Random):
    """Always draws the median."""

    def random(self) -> float:
        return 0.5


@pytest.mark.parametrize(
    ("duration", "mean", "median"),
    [
        (Fixed(7.0), 7, 7),
        (Uniform(2.0, 6.0), 4, 4),
        (Exponential(10.0), 10, 10 * math.log(2)),
        (Exponential(0.0), 0, 0),
        (Weibull(10.0, 1.0), 10, 10 * math.log(2)),
        (Weibull(10.0, 2.0), 10, 20 / math.sqrt(math.pi) * math.sqrt(math.log(2))),
    ],
)
def test_the_mean_and_what_is_drawn_half_way(duration, mean, median):
    assert duration.mean == mean
    assert duration.draw(Half()) == pytest.approx(median)


def test_63_percent_of_a_weibull_are_within_its_scale():
    assert Weibull(10.0, 2.0).scale == pytest.approx(10 / math.gamma(1.5))
