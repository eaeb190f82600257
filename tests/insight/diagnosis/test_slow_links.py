"""Links that are full below their bandwidth: the slowest first, both directions as one."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.insight.diagnosis import RankPace, slow_links
from chakrakit.trace.sets import Counters

STEPS = RankPace(0, np.array([7, 8, 9]), np.array([0, 100, 200]), np.ones(3), b"")


def links(*rows: tuple[str, str, float, float]) -> Counters:
    """Links of 100 bytes/s as (source, target, rate while full, since when)."""
    src, dst, rate, since = zip(*rows, strict=True)
    table = {"link": list(src), "src": list(src), "dst": list(dst), "full_rate": list(rate)}
    sizes = {"bytes": [1.0] * len(rows), "busy_ns": [1.0] * len(rows)}
    since_ns = {"full_since_ns": list(since), "bandwidth": [100.0] * len(rows)}
    return Counters({"links": table | sizes | since_ns})


def test_a_slow_link_is_named_from_its_device_with_its_step():
    [culprits] = slow_links(links(("switch 0", "device 3", 40.0, 150.0)), [STEPS])
    assert (culprits.kind, culprits.link, culprits.since_step) == (
        "slow-link",
        "device 3-switch 0",
        8,
    )
    assert culprits.factor == pytest.approx(2.5)
    assert culprits.detail == "the link device 3-switch 0 is full at 1/2.50 of its bandwidth"


def test_both_directions_are_one_and_the_slowest_comes_first():
    culprits = slow_links(
        links(
            ("device 1", "switch 0", 50.0, 250.0),
            ("switch 0", "device 1", 80.0, 10.0),
            ("device 2", "switch 0", 25.0, 0.0),
        ),
        [STEPS],
    )
    assert [(c.link, c.factor, c.since_step) for c in culprits] == [
        ("device 2-switch 0", 4.0, 7),
        ("device 1-switch 0", 2.0, 7),
    ]


@pytest.mark.parametrize("rate", [-1.0, 100.0, 96.0])
def test_a_link_that_is_never_full_or_full_at_its_bandwidth_is_not_slow(rate: float):
    assert slow_links(links(("a", "b", rate, 0.0)), [STEPS]) == []


def test_a_link_that_carries_nothing_is_slow_without_bound_and_runs_without_links_have_none():
    [culprits] = slow_links(links(("a", "b", 0.0, 0.0)), [])
    assert (culprits.factor, culprits.since_step) == (float("inf"), None)
    assert slow_links(Counters({}), [STEPS]) == []
