"""Steps and requests of an engine as arrays, and what falls into a stretch of time."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

import chakrakit as ck
from chakrakit.insight import is_served
from chakrakit.insight.served_requests import EngineRows, engine_rows
from support.served import served


def test_requests_and_steps_have_their_times_and_sizes() -> None:
    [rows] = engine_rows(served())
    assert rows.end.tolist() == [10, 20, 30]
    assert rows.features.tolist() == [[1, 2, 6, 6], [1, 2, 4, 8], [1, 2, 0, 10]]
    assert (rows.arrival.tolist(), rows.scheduled.tolist()) == ([0, 0], [0, 10])
    assert (rows.first.tolist(), rows.finish.tolist()) == ([10, 20], [30, 30])
    assert (rows.prompt.tolist(), rows.output.tolist()) == ([6, 4], [3, 2])


def test_a_stretch_holds_the_steps_that_end_in_it() -> None:
    [rows] = engine_rows(served())
    own_ms, features = rows.sums(np.array([0.0, 10.0]), np.array([10.0, 30.0]))
    assert own_ms.tolist() == [10, 20]
    assert features.tolist() == [[1, 2, 6, 6], [2, 4, 4, 18]]


def test_a_step_that_overlaps_the_one_before_counts_since_that_ended() -> None:
    absent = dict.fromkeys([f.name for f in fields(EngineRows)], np.zeros(0))
    times = {"start": np.array([0.0, 5.0]), "end": np.array([10.0, 14.0])}
    rows = EngineRows(**(absent | {"rank": 0} | times))
    assert rows.own().tolist() == [10, 4]


def test_only_runs_whose_card_names_engines_were_served(two_ranks: ck.Run) -> None:
    assert is_served(served())
    assert not is_served(two_ranks)
    assert not is_served(served().select_ranks([]))
