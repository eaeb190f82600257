"""A stream of requests: cut, scaled, spread, put in another order."""

import numpy as np
import pytest

from chakrakit.errors import ConfigError
from chakrakit.serving.requests import requests_from, stream_of


def stream(**more):
    ids = [[1, 2], [1], [9, 9, 9]]
    return stream_of([0.0, 1.0, 2.5], [10, 20, 30], [1, 2, 3], ids=ids, names="abc", **more)


def test_times_are_picoseconds():
    assert stream().arrival_ps.tolist() == [0, 10**12, 25 * 10**11]


def test_scaling_rounds_lengths_and_keeps_one_token():
    found = stream().scaled(rate=2.0, prompt=0.26, output=0.1)
    assert found.arrival_ps.tolist() == [0, 5 * 10**11, 125 * 10**10]
    assert (found.prompt.tolist(), found.output.tolist()) == ([3, 5, 8], [1, 1, 1])


def test_a_scale_of_one_leaves_every_picosecond():
    late = stream_of([4e6 + 1e-9], [1], [1])
    assert late.scaled() is late


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf")])
def test_a_scale_that_makes_no_stream_is_refused(rate):
    with pytest.raises(ConfigError, match="a rate scale of"):
        stream().scaled(rate=rate)


def test_the_first_requests_keep_their_content():
    found = stream().first(2)
    assert (len(found), found.ids.tolist(), list(found.names)) == (2, [1, 2, 1], ["a", "b"])
    assert len(stream().first(99)) == 3
    with pytest.raises(ConfigError, match="the first 0 requests"):
        stream().first(0)


def test_another_order_takes_the_content_along():
    found = stream().reordered(np.array([2, 0, 1]))
    assert found.prompt.tolist() == [30, 10, 20]
    assert found.ids.tolist() == [9, 9, 9, 1, 2, 1]
    assert found.offsets.tolist() == [0, 3, 5, 6]
    assert found.names == ["c", "a", "b"]


def test_arrivals_are_spread_within_the_time_and_sorted():
    found = stream().spread(10.0, seed=3)
    assert (np.diff(found.arrival_ps) >= 0).all()
    assert sorted(found.prompt.tolist()) == [10, 20, 30]
    again = stream().spread(10.0, seed=3)
    assert again.arrival_ps.tolist() == found.arrival_ps.tolist()


def test_turns_of_a_session_cannot_be_spread():
    with pytest.raises(ConfigError, match="sessions cannot be spread"):
        stream(after=[-1, 0, 1]).spread(1.0, seed=0)


def test_streams_are_rescaled_cut_and_spread() -> None:
    """Twice the rate halves the times; stamps in steps are spread within a step, in order."""
    stream = requests_from("bursts{rate=10, size=10, n=100, prompt=100, output=10}")
    fast = stream.scaled(rate=2, prompt=0.5).first(50)
    assert fast.arrival_ps[-1] == round(int(stream.arrival_ps[49]) / 2)
    assert set(fast.prompt.tolist()) == {50}
    smooth = stream.spread(1.0, seed=1)
    assert len(np.unique(smooth.arrival_ps)) == 100
    assert (np.diff(smooth.arrival_ps) >= 0).all()


def test_spread_arrivals_come_later_by_less_than_was_given():
    together = stream_of(np.ones(200), np.full(200, 5), np.full(200, 3))
    later = np.sort(together.spread(4.0, seed=1).arrival_ps) - 10**12
    assert 0 <= later.min() < 0.2e12
    assert 3.8e12 < later.max() < 4e12
