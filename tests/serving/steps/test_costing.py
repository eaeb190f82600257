"""Times of a step as the core wants them."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.errors import ConfigError
from chakrakit.serving.steps import picoseconds
from chakrakit.serving.steps.costing import flat, in_pieces


def test_seconds_become_whole_picoseconds() -> None:
    assert picoseconds(lambda n: n * 1.5e-9)(3) == 4500


@pytest.mark.parametrize("seconds", [-1e-9, 1e6, float("nan")])
def test_a_step_that_takes_too_long_or_less_than_nothing_is_refused(seconds: float) -> None:
    with pytest.raises(ConfigError, match=r"a step of 1,000 tokens or requests would take"):
        picoseconds(lambda _n: seconds)(1000)


def test_many_times_are_asked_for_at_once_and_only_once() -> None:
    asked = []

    def times(n):
        asked.append(n.tolist())
        return 2 * n

    seconds = in_pieces(times, 4)
    assert [seconds(n) for n in (1, 3, 5, 2)] == [2, 6, 10, 4]
    assert asked == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_arrays_are_flat_and_contiguous() -> None:
    found = flat(np.arange(6).reshape(2, 3).T)
    assert found.tolist() == [0, 3, 1, 4, 2, 5]
    assert found.flags.c_contiguous
