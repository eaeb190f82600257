"""Search: by name, id and attribute, over all ranks."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from chakrakit.views.app.search import search
from chakrakit.views.app.shown_run import ShownRun


def hits(ask, text: str) -> list[tuple[int, str]]:
    return [(h["rank"], h["name"]) for h in ask("search", text=text)["hits"]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("UPD", [(0, "update"), (1, "update")]),
        ("1", [(0, "sum"), (1, "sum")]),
        ("id=2", [(0, "update"), (1, "update")]),
        ("pg_name=1", [(0, "sum"), (1, "sum")]),
        ("pg_name=2", []),
        ("pg_name~^.$", [(0, "sum"), (1, "sum")]),
        ("comm_size>=1048576", [(0, "sum"), (1, "sum")]),
        ("comm_size<1048576", []),
        ("stream!=7", [(0, "sum"), (1, "sum")]),
        ("type=COMM_COLL", [(0, "sum"), (1, "sum")]),
        ("duration>25us", [(0, "sum"), (1, "forward")]),
        ("start>=50us", [(0, "update"), (1, "update")]),
        ("name=sum", [(0, "sum"), (1, "sum")]),
        ("name~^f.*d$", [(0, "forward"), (1, "forward")]),
        ("name!=sum", [(0, "forward"), (0, "update"), (1, "forward"), (1, "update")]),
        ("no_such_attribute=1", []),
        ("comm_size=text", []),
        ("99999999999999999999999", []),
    ],
)
def test_what_a_text_finds(client, two_ranks, text, expected):
    assert hits(client(two_ranks), text) == expected


def test_a_recording_is_searched_like_its_table(client, pipeline):
    ask = client(pipeline)
    traces = [pipeline.trace(rank) for rank in pipeline.ranks]
    names = [name for trace in traces for name in trace.names.to_pylist()]
    assert ask("search", text="copy")["total"] == sum("copy" in name.lower() for name in names)
    slow = sum(int((trace.duration_ns > 1_000_000).sum()) for trace in traces)
    assert ask("search", text="duration>1ms")["total"] == slow
    assert len(hits(ask, "aten")) == 200


def test_a_long_search_goes_on_where_it_stopped(client, pipeline, monkeypatch):
    monkeypatch.setattr("chakrakit.views.app.search._SECONDS", -1.0)
    ask = client(pipeline)
    first = ask("search", text="copy")
    assert (first["ranks"], first["next"], first["of"]) == (1, 1, 2)
    rest = ask("search", text="copy", first=first["next"])
    assert rest["next"] is None
    assert {h["rank"] for h in rest["hits"]} == {1}


def test_rows_that_never_ran_are_found_by_name_and_have_no_times(client, two_ranks):
    two_ranks.times[0].start[2], two_ranks.times[0].end[2] = -1, -1
    ask = client(two_ranks)
    (hit, _) = ask("search", text="update")["hits"]
    assert hit["start"] is None
    assert hit["track"] == -1
    assert np.array(two_ranks.start(0))[2] == -1


def test_a_search_that_takes_long_is_asked_for_again(two_ranks, monkeypatch):
    """The request ends in time; the rank is looked through meanwhile, and found the next time."""
    side = ShownRun(two_ranks, "slow", [])
    begun, view = threading.Event(), side.view

    def slow(rank: int):
        begun.wait()
        return view(rank)

    monkeypatch.setattr(side, "view", slow)
    monkeypatch.setattr("chakrakit.views.app.search._LONGEST", 0.05)
    first = search(side, "sum", 0)
    assert (first["next"], first["total"]) == (0, 0)
    begun.set()
    while (found := search(side, "sum", 0))["total"] == 0:
        time.sleep(0.01)
    assert found["hits"][0]["name"] == "sum"
