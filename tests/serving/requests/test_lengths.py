"""Lengths of prompts and outputs: a number, or a distribution to draw from."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.errors import ConfigError
from chakrakit.serving.requests.processes import LengthDistribution


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        ("512", LengthDistribution("fixed", (512.0,))),
        ("lognormal:512:0.8", LengthDistribution("lognormal", (512.0, 0.8))),
        ("uniform:3:9", LengthDistribution("uniform", (3.0, 9.0))),
    ],
)
def test_as_people_write_them(text: str, lengths: LengthDistribution) -> None:
    assert LengthDistribution.parse(text, "prompt") == lengths


@pytest.mark.parametrize("text", ["0", "-3", "x", "normal:3", "uniform:3", "lognormal:1:0", "1e9"])
def test_what_is_no_length_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"output length .*: give a number above 0"):
        LengthDistribution.parse(text, "output")


def test_bounds_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(ConfigError, match="the lower bound is above the upper one"):
        LengthDistribution.parse("uniform:9:3", "prompt")


@pytest.mark.parametrize(
    ("text", "mean", "least", "most"),
    [
        ("7", 7, 7, 7),
        ("uniform:2:5", 3.5, 2, 5),
        ("geometric:4", 4, 1, np.inf),
        ("exponential:200", 200, 1, np.inf),
        ("lognormal:200:0.5", 200, 1, np.inf),
    ],
)
def test_what_is_drawn_are_whole_numbers_of_that_mean(text, mean, least, most) -> None:
    drawn = LengthDistribution.parse(text, "prompt").draw(np.random.default_rng(0), 20_000)
    assert drawn.dtype == np.int64
    assert drawn.mean() == pytest.approx(mean, rel=0.03)
    assert least <= drawn.min()
    assert drawn.max() <= most
