"""How long a collective or message takes when nothing else is on the machine."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit import CollectiveType
from chakrakit.exploration.bound import IsolatedTimes
from chakrakit.machines import parse_machine

KIND = CollectiveType.ALL_GATHER


@pytest.fixture
def times() -> IsolatedTimes:
    """Two nodes of two devices: 10 GB/s and 1 µs inside, 1 GB/s and 5 µs between."""
    inside = {"topology": "full", "size": 2, "bandwidth": 10e9, "latency": 1e-6}
    between = {"topology": "full", "size": 2, "bandwidth": 1e9, "latency": 5e-6}
    return IsolatedTimes(parse_machine({"network": [inside, between]}, "m"))


def test_the_quickest_of_equally_large_groups_counts(times: IsolatedTimes) -> None:
    """10 kB to the other member: 1 µs and its latency inside a node, 10 µs and 5 µs between nodes."""
    near, far = [(0, 1), (2, 3)], [(0, 2), (1, 3)]
    assert times.collective(KIND, 10_000, near) == pytest.approx(2_000_000, rel=0.01)
    assert times.collective(KIND, 10_000, far) == pytest.approx(15_000_000, rel=0.01)
    assert times.collective(KIND, 10_000, [*far, *near]) == times.collective(KIND, 10_000, near)
    assert times.collective(KIND, 10_000, [(0,), (1,)]) == 0


def test_links_are_busy_with_the_bytes_they_carry(times: IsolatedTimes) -> None:
    busy = times.load(KIND, 10_000, (0, 1))
    assert sorted(busy[busy > 0].tolist()) == pytest.approx([1e6, 1e6])


def test_a_message_on_the_quickest_route(times: IsolatedTimes) -> None:
    both = times.message(10_000, np.array([0, 0]), np.array([2, 1]))
    assert both == pytest.approx(2_000_000)
    assert times.message(10_000, np.array([0]), np.array([2])) == pytest.approx(15_000_000)
