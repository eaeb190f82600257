"""One rank ready to be drawn at any zoom."""

from __future__ import annotations

import numpy as np

import chakrakit as ck


def test_a_click_between_slices_finds_the_nearest(client, two_ranks):
    ask = client(two_ranks)
    nearest = {
        t: ask("at", rank=0, track=0, depth=0, time=t)["row"] for t in (-5, 9_999, 29_000, 31_000)
    }
    assert nearest == {-5: 0, 9_999: 0, 29_000: 0, 31_000: 2}


def test_rows_nested_deeper_than_a_screen_are_counted(client):
    n = 300
    trace = ck.Trace.from_columns(
        {
            "name": [f"f{i}" for i in range(n)],
            "type": [4] * n,
            "is_cpu_op": [True] * n,
            "tid": [1] * n,
            "start_time_ns": np.arange(n) * 10,
            "duration_ns": 10_000 - 20 * np.arange(n),
        }
    )
    ask = client(ck.Run([trace]))
    layout = ask("rank", rank=0)
    assert (layout["too_deep"], layout["tracks"][0]["depth"]) == (100, 200)
    window = ask("window", rank=0, first=0, last=1, **{"from": 0, "to": 10_000, "width": 100})
    assert [line["row"] for line in window["lines"]] == [[i] for i in range(200)]
    assert ask("node", rank=0, row=299)["depth"] == -1
