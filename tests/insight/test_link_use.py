"""How busy links were, over the whole run and over a stretch of it."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight import links_use
from chakrakit.trace.sets import Times, run_of

LINKS = {
    "link": ["0", "1"],
    "src": ["device 0", "device 1"],
    "dst": ["switch 0.0", "switch 0.0"],
    "bandwidth": [1e9, 1e9],
    "bytes": [50.0, 100.0],
    "busy_ns": [50.0, 100.0],
    "utilization": [0.25, 0.5],
}
RATES = {
    "rank": [0, 0, 1, 1],
    "link": ["0", "0", "1", "1"],
    "time_ns": [0, 100, 100, 200],
    "bytes_per_s": [5e8, 0.0, 1e9, 0.0],
}


def _run(**counters) -> ck.Run:
    t = ck.TraceBuilder()
    t.comp("work", stream=0)
    times = Times(np.array([0]), np.array([200]))
    return run_of(ck.TraceSet([t.build()]), {0: times}, tick_ps=1000, counters=counters)


def test_a_stretch_counts_what_flowed_in_it():
    use = links_use(_run(links=LINKS, link_rate=RATES), 50, 150)
    assert not use.whole
    assert [(u.src, u.rank, u.bytes, u.utilization) for u in use.links] == [
        ("device 1", 1, pytest.approx(50.0), pytest.approx(0.5)),
        ("device 0", 0, pytest.approx(25.0), pytest.approx(0.25)),
    ]


def test_without_rates_the_sums_of_the_run_are_said_as_such():
    use = links_use(_run(links=LINKS), 50, 150)
    assert use.whole
    assert [u.utilization for u in use.links] == [0.5, 0.25]


def test_links_alike_share_a_row_and_a_run_without_links_has_none():
    same = LINKS | {"bytes": [50.0, 50.0], "utilization": [0.25, 0.25]}
    rows = links_use(_run(links=same), 0, 200).table(20).rows
    assert rows == [("device 0 → switch 0.0 and 1 more", 25.0, "50 B", 1.0)]
    assert links_use(_run(), 0, 200) is None
