"""The simulator's clock: picoseconds, and times that it does not have."""

import numpy as np
import pytest

from chakrakit.errors import ConfigError
from chakrakit.machines.device import (
    HORIZON_PS,
    MOST_NS,
    each_picoseconds,
    nanoseconds_to_ticks,
    picoseconds,
)


def test_seconds_become_whole_picoseconds():
    assert picoseconds(1.5e-6, "a hop") == 1_500_000
    assert each_picoseconds(np.array([0.0, 2e-12]), str).tolist() == [0, 2]


def test_nanoseconds_may_be_below_zero():
    assert nanoseconds_to_ticks(np.array([-3, 7]), str).tolist() == [-3000, 7000]


@pytest.mark.parametrize("seconds", [-1e-9, 1e9, float("inf"), float("nan")])
def test_a_time_that_the_clock_does_not_have_is_named(seconds):
    with pytest.raises(ConfigError, match=r"a hop is .* s; a simulation has \d+ days in all"):
        picoseconds(seconds, "a hop")


def test_of_many_times_the_first_wrong_one_is_named():
    with pytest.raises(ConfigError, match=r"node 1 is -2 s"):
        each_picoseconds(np.array([1.0, -2.0, -3.0]), "node {}".format)
    with pytest.raises(ConfigError, match="node 0 is"):
        nanoseconds_to_ticks(np.array([MOST_NS + 1]), "node {}".format)


def test_the_longest_time_is_the_horizon():
    assert nanoseconds_to_ticks(np.array([MOST_NS]), str)[0] <= HORIZON_PS
