"""Calls side by side: those of one group and number meet, whatever the numbers are."""

from __future__ import annotations

import numpy as np
import pytest

from support.boards import Call, board

ALL = [0, 1]


@pytest.mark.parametrize("far", [0, 2**40])
def test_calls_of_one_group_and_number_meet(far: int) -> None:
    calls = board(
        [
            Call(0, 3),
            Call(0, 4 + far),
            Call(0, 3, group=1),
            Call(1, 3),
            Call(1, 4 + far, nth=1),
            Call(1, 4 + far),
        ],
        [ALL, ALL],
    )
    assert calls.meetings == 4
    assert [calls.rows(m).tolist() for m in range(4)] == [[0, 3], [1, 5], [4], [2]]
    assert [calls.meeting_of(row) for row in range(6)] == [0, 1, 3, 0, 2, 1]


def test_values_are_reduced_over_the_calls_that_meet() -> None:
    calls = board([Call(0, 1, start=5), Call(0, 2, start=9), Call(1, 1, start=3)], [ALL])
    assert calls.per_meeting(np.minimum, calls.start).tolist() == [3, 9]


def test_a_call_is_named_by_kind_number_and_group() -> None:
    calls = board([Call(0, 7), Call(0, 8, group=1, sign=1), Call(0, 9, group=1)], [ALL, ALL])
    assert [calls.label(row) for row in range(3)] == [
        "ALL_REDUCE 7 of group 0",
        "ALL_GATHER 8 of group g1",
        "ALL_REDUCE 9 of group g1",
    ]


def test_a_board_without_calls_has_no_meetings() -> None:
    calls = board([], [ALL])
    assert (len(calls), calls.meetings, len(calls.per_meeting(np.minimum, calls.start))) == (
        0,
        0,
        0,
    )
