"""When checkpoints are taken and how long each stops the job, as one clock."""

from __future__ import annotations

import pytest

from chakrakit.campaigns.checkpoints import Cadence


def test_the_clock_of_a_pattern_of_checkpoints_goes_both_ways():
    cadence = Cadence(10, (3.0, 1.0, 1.0))
    for count in range(12):
        clock = cadence.at(count, 2.0)
        assert cadence.complete(clock + 1e-9, 2.0) == count
        assert cadence.position(clock + 5.0, 2.0)[1] == pytest.approx(2.5)
    assert cadence.at(3, 2.0) == 65.0
    assert cadence.position(cadence.at(3, 2.0) + 21.5, 2.0) == (3, 10.0, pytest.approx(1.5))
    assert cadence.end(30, 2.0) == 60 + 3 + 1
    assert cadence.end(31, 2.0) == 62 + 5
