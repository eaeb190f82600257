"""Timelines parsed back: tracks serial or nested, arrows paired, times exact, names escaped."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import chakrakit as ck
from chakrakit.trace.sets import Run, Times
from chakrakit.views import TimelineOptions
from chakrakit.views.timeline import rank_timelines
from support.timelines import small


def test_what_overlaps_on_a_stream_gets_tracks_of_its_own(perfetto, chrome):
    run = small(("a", "b", "c"), (0, 5, 20), (10, 15, 30))
    parsed = perfetto(run)
    assert parsed.slices == {
        "trace › rank 0 › device 0 stream 7": [("a", 0, 10), ("c", 20, 30)],
        "trace › rank 0 › device 0 stream 7 (2)": [("b", 5, 15)],
    }
    assert {(e["name"], e["tid"]) for e in chrome(run) if e["ph"] == "X"} == {
        ("a", 0),
        ("b", 1),
        ("c", 0),
    }


@pytest.mark.parametrize(
    "name",
    ['</script><script>alert("x")</script>', 'a"b\\c\n\t\x01', "ü › 木", "\ud800"[:0] or "x"],
)
def test_any_name_survives(perfetto, chrome, name):
    run = small((name, "b"))
    assert perfetto(run).slices["trace › rank 0 › device 0 stream 7"][0][0] == name
    assert next(e for e in chrome(run) if e["ph"] == "X")["name"] == name


def test_figures_over_time_become_counters(perfetto, chrome):
    """A figure over time of the run: one counter for each queue, on its own rank."""
    plain = small()
    table = pa.table(
        {
            "rank": [0, 0, 0, 1],
            "time_ns": [0, 10, 5, 0],
            "queue": ["up", "up", "down", "up"],
            "depth": [1, 7, 3, 9],
        }
    )
    run = Run(
        plain.bodies,
        plain.bindings,
        plain.groups,
        plain.card,
        times=plain.times,
        timing=plain.timing,
        counters={"queue_depth": table, "totals": pa.table({"rank": [0], "bytes": [1]})},
    )
    assert perfetto(run).counters == {
        "trace › rank 0 › queue depth up": [(0, 1), (10, 7)],
        "trace › rank 0 › queue depth down": [(5, 3)],
    }
    counted = [(e["name"], e["ts"], e["args"]["items"]) for e in chrome(run) if e["ph"] == "C"]
    assert ("queue depth up", 0.01, 7) in counted


def test_a_window_has_what_touches_it_and_only_whole_arrows(two_ranks):
    for window, rows, arrows in (
        ((0, 60_000), 6, 5),
        ((0, 20_000), 3, 1),
        ((51_000, 52_000), 2, 0),
    ):
        lines = list(rank_timelines(two_ranks, TimelineOptions(window=window)))
        assert sum(len(line.tracks.row) for line in lines) == rows
        ids = np.concatenate([line.flows.id for line in lines])
        begins = np.concatenate([line.flows.begins for line in lines])
        stops = np.concatenate([line.flows.stops for line in lines])
        assert len(np.unique(ids)) == arrows
        assert sorted(ids[begins]) == sorted(ids[stops]) == sorted(set(ids.tolist()))


@pytest.mark.slow
def test_one_rank_is_drawn_for_many_that_do_the_same(chrome):
    """Of 66 ranks that run one program at the same times, one is drawn and says so."""
    t = ck.TraceBuilder()
    t.comp("gemm", duration_ns=10)
    t.send("s", 0, 1, 16, 0)
    t.recv("r", 1, 0, 16, 0)
    t.collective("c", ck.CollectiveType.ALL_REDUCE, 64)
    bindings = {r: ck.Binding(0, {}, {1: r ^ 1}) for r in range(66)}
    times = Times(np.array([0, 10, 10, 20]), np.array([10, 20, 20, 30]))
    run = Run([t.build()], bindings, times=[times], timing=dict.fromkeys(range(66), 0))
    labels = [e["args"]["name"] for e in chrome(run) if e.get("name") == "process_name"]
    assert labels == ["rank 0 (1 of 66 alike)"]
    every = chrome(run, TimelineOptions(every_rank=True))
    assert sum(e.get("name") == "process_name" for e in every) == 66
    assert not [e for e in chrome(run) if e["ph"] in "st"]  # no arrow from a rank to itself
