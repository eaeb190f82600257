"""What the browser draws of one rank in a stretch of time."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.insight.rank import rank_view


def test_a_window_holds_the_slices_with_names_and_kinds(client, two_ranks):
    ask = client(two_ranks)
    assert [t["title"] for t in ask("rank", rank=0)["tracks"]] == [
        "device 0 stream 7",
        "device 0 stream 20",
    ]
    answer = ask("window", rank=0, **{"from": 0, "to": 60_000, "width": 60, "first": 0, "last": 2})
    slices = [
        (answer["names"][name], start, length, code)
        for line in answer["lines"]
        for name, start, length, code in zip(
            line["name"], line["start"], line["length"], line["code"], strict=True
        )
    ]
    assert slices == [
        ("forward", 0, 10_000, 0),
        ("update", 50_000, 5_000, 0),
        ("sum", 10_000, 40_000, 1),
    ]
    compute, communication, copies = answer["strip"]
    assert compute == [255] * 10 + [0] * 40 + [255] * 5 + [0] * 5
    assert communication == [0] * 10 + [255] * 40 + [0] * 10
    assert not any(copies)


def test_waits_are_apart_in_the_strip_once_the_run_is_analyzed(client, two_ranks):
    """Rank 0 comes to the sum at 10 µs, rank 1 at 30: 20 of its 40 µs are waiting for a late rank."""
    ask = client(two_ranks)
    ask.session.sides[0].findings.wait()
    window = {"from": 0, "to": 60_000, "width": 60, "first": 0, "last": 2}
    compute, communication, copies, late, bubble = ask("window", rank=0, **window)["strip"]
    assert compute == [255] * 10 + [0] * 40 + [255] * 5 + [0] * 5
    assert late == [0] * 10 + [255] * 20 + [0] * 30
    assert communication == [0] * 30 + [255] * 20 + [0] * 10
    assert not any(copies)
    assert not any(bubble)


@pytest.mark.slow
def test_all_slices_of_a_recording_are_somewhere_at_full_zoom(client, pipeline):
    """Windows side by side, small enough that nothing is summed, show every row that ran once."""
    ask = client(pipeline)
    layout = ask("rank", rank=0)
    begin, end = layout["span"]
    rows: set[int] = set()
    step = (end - begin) // 40 + 1
    for at in range(begin, end + 1, step):
        answer = ask(
            "window", rank=0, first=0, last=99, **{"from": at, "to": at + step, "width": 7999}
        )
        assert not any(line["bucket"] for line in answer["lines"])
        rows.update(row for line in answer["lines"] for row in line["row"])
    view = rank_view(pipeline, 0)
    assert rows == set(np.flatnonzero(view.ran & (view.kind != 4)).tolist())


def test_a_rank_on_which_nothing_ran_has_no_tracks(client, two_ranks):
    two_ranks.times[0].start[:], two_ranks.times[0].end[:] = -1, -1
    ask = client(two_ranks)
    assert ask("rank", rank=0)["tracks"] == []
    assert ask("window", rank=0, first=0, last=9, **{"from": 0, "to": 9, "width": 9})["lines"] == []
    assert ask("node", rank=0, row=0)["start"] is None
