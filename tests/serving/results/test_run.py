"""A served stream as a Run: engines as ranks, and requests on lanes beside their steps."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.serving.cluster import Setup, run
from chakrakit.serving.results import ServedRun
from chakrakit.serving.results.run import engine_run, lanes
from support.serving_engines import pool, together


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ([0, 1, 5], [4, 6, 8], [0, 1, 0]),
        ([0, 4, 8], [4, 8, 9], [0, 0, 0]),  # one begins as another ends
        ([0, 0, 0], [9, 1, 9], [0, 1, 2]),
        ([], [], []),
    ],
)
def test_the_fewest_lanes_on_which_no_two_overlap(start, end, expected) -> None:
    found = lanes(np.array(start, np.int64), np.array(end, np.int64))
    assert found.tolist() == expected


def test_one_request_of_three_tokens() -> None:
    """Steps of 10 ms: the prompt's, and two of a token each."""
    setup = Setup(together(1, 8, 3), [pool()], record_steps=True)
    made = engine_run(ServedRun(setup, run(setup), None, (1,), ()), {"name": "served"})
    trace = made.trace(0)
    ms = 10**9
    assert trace.names.to_pylist() == ["prefill", "decode", "decode", "queued", "prompt", "output"]
    assert made.start(0).tolist() == [0, 10 * ms, 20 * ms, 0, 0, 10 * ms]
    assert made.end(0).tolist() == [10 * ms, 20 * ms, 30 * ms, 0, 10 * ms, 30 * ms]
    assert trace.column("batch_tokens", 0)[:3].tolist() == [8, 1, 1]
    assert trace.column("request_prompt", 0)[3:].tolist() == [8, 8, 8]
    assert list(zip(trace.edges.src.tolist(), trace.edges.dst.tolist(), strict=True)) == [
        (0, 1),
        (1, 2),
        (3, 4),
        (4, 5),
    ]
    assert made.card.name == "served"
    assert made.counters["batch"]["requests"].to_pylist() == [1, 1, 1]
