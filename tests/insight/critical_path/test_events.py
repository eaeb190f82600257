"""Events of a rank: names of its communication, its last work, and ranks read when they are needed."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight.critical_path import LoadedEvents, RankEvents, end_of, events_of
from chakrakit.insight.critical_path import critical_path as events
from chakrakit.insight.rank import rank_view
from chakrakit.trace.sets import Times, run_of


def test_communication_is_called_by_its_type_and_group(two_ranks):
    events = events_of(rank_view(two_ranks, 0), None)
    assert [events.texts[n] for n in events.operator] == ["forward", "ALL_REDUCE 1", "update"]
    assert [events.texts[n] for n in events.name] == ["forward", "sum", "update"]
    assert events.ran.all()


def ending(*times: tuple[int, int]) -> events.RankEnd:
    t = ck.TraceBuilder()
    for i in range(len(times)):
        t.comp(f"n{i}", stream=i)
    start, end = (np.array(c) for c in zip(*times, strict=True))
    run = run_of(ck.TraceSet([t.build()]), {0: Times(start, end)}, tick_ps=1000)
    return end_of(events_of(rank_view(run, 0), None))


def test_the_last_work_is_what_ends_last_and_of_equal_ones_what_started_last():
    assert (ending((0, 9), (2, 7)).row, ending((0, 9), (2, 7)).time) == (0, 9)
    assert ending((0, 9), (4, 9), (2, 9)).row == 1
    assert ending((0, 9), (4, 9)).rows == 2


def test_a_rank_that_did_nothing_has_no_last_work():
    events = ending((-1, -1), (-1, -1))
    assert (events.row, events.time, events.rows) == (-1, 0, 2)


def test_of_many_ranks_the_one_not_used_for_longest_is_forgotten(
    two_ranks, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(events, "_MOST_LOADED", 6)  # two ranks of three rows
    read: list[int] = []

    def load(rank: int) -> RankEvents:
        read.append(rank)
        return events_of(rank_view(two_ranks, rank % 2), None)

    loaded = LoadedEvents(range(3), load)
    for rank in (0, 1, 0, 2, 0, 1):
        assert len(loaded[rank].start) == 3
    assert read == [0, 1, 2, 1]  # 1 was not used for longest when 2 came
    assert (list(loaded), len(loaded)) == ([0, 1, 2], 3)
