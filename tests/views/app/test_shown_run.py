"""One run as the app shows it: alike ranks folded, times from its begin, everything read when asked for."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.errors import TraceError
from chakrakit.trace.sets import Times, run_of
from chakrakit.views.app.shown_run import Recent, ShownRun


def test_times_are_relative_to_the_run_however_late_it_was(client):
    t = ck.TraceBuilder()
    t.comp("a", duration_ns=10, stream=0)
    late = 1_700_000_000_000_000_000
    run = run_of(
        ck.TraceSet([t.build()]), {0: Times(np.array([late]), np.array([late + 10]))}, tick_ps=1000
    )
    assert client(run)("rank", rank=0)["span"] == [0, 10]


def test_ranks_that_do_the_same_are_one_row(client):
    t = ck.TraceBuilder()
    t.comp("a", duration_ns=10, stream=0)
    times = {r: Times(np.array([0]), np.array([10 + (r == 5)])) for r in range(1000)}
    bindings = {r: ck.Binding(0) for r in range(1000)}
    ask = client(run_of(ck.TraceSet([t.build()], bindings), times, tick_ps=1000))
    assert ask("session")["sides"][0]["folds"] == [
        [0, 999, "ranks 0–4, 6–999 (999)"],
        [5, 1, "rank 5"],
    ]
    assert ask("rank", rank=7)["ranks"][:6] == [0, 1, 2, 3, 4, 6]


def test_large_runs_are_analyzed_when_asked_only(client, two_ranks, monkeypatch):
    monkeypatch.setattr("chakrakit.views.app.shown_run._SMALL", 5)
    ask = client(two_ranks)
    assert ask("node", rank=0, row=0)["analysis"] == "idle"
    ask("analyze")
    assert ask.session.sides[0].findings.wait()
    assert ask("node", rank=0, row=0)["slack"] == 20_000


def test_values_used_last_are_kept_up_to_a_total_size():
    calls = []

    def make(value):
        return lambda: calls.append(value) or value

    recent = Recent(threading.RLock(), 10, lambda value: value)
    for value in (4, 5, 4, 6):  # 4 was asked for again, so that 5 goes first and then 4
        assert recent.get(value, make(value)) == value
    assert calls == [4, 5, 6]
    assert recent.get(4, make(4)) == 4
    assert recent.get(5, make(5)) == 5
    assert calls == [4, 5, 6, 5]


def test_an_answer_that_takes_long_is_none_and_there_the_next_time(two_ranks):
    side = ShownRun(two_ranks, "run", [])
    go = threading.Event()
    assert side.answer("key", lambda: go.wait() and 7, 0.0) is None
    go.set()
    assert side.answer("key", lambda: 8, 60.0) == 7


def test_a_rank_that_is_not_there_is_named(two_ranks):
    with pytest.raises(TraceError, match="no rank 9 in mine"):
        ShownRun(two_ranks, "mine", []).lines(9)


def test_searches_that_nobody_waits_for_do_not_pile_up(two_ranks):
    """Behind one that takes long, the others are forgotten when their requests end."""
    side, go, calls = ShownRun(two_ranks, "slow", []), threading.Event(), []
    assert side.answer("long", go.wait, 0.01) is None
    for number in range(20):
        assert side.answer(number, lambda number=number: calls.append(number), 0.0) is None
    go.set()
    assert side.answer("long", go.wait, 60) is True
    assert side.answer("new", lambda: "found", 60) == "found"
    assert calls == []
