"""Who never arrived: the ranks that others wait for and that wait for nobody."""

from __future__ import annotations

import pytest

from chakrakit.insight.diagnosis.hangs import Absence, find_absences
from support.boards import Call, board

ISSUED, RUNS, DONE, UNKNOWN = 0, 1, 2, -1
ALL = [0, 1, 2, 3]


def call_all(seq: int, ranks: list[int], state: int = DONE, group: int = 0) -> list[Call]:
    return [Call(rank, seq, group, state=state, start=seq) for rank in ranks]


def test_a_rank_that_does_not_come_to_a_collective_is_missed() -> None:
    absences = find_absences(board([*call_all(1, ALL), *call_all(2, [0, 1, 2], RUNS)], [ALL]))
    assert absences == [Absence(3, dead=False, row=4)]


def test_a_rank_without_a_recording_is_dead() -> None:
    absences = find_absences(board(call_all(1, [0, 1, 2], RUNS), [ALL]))
    assert absences == [Absence(3, dead=True, row=0)]


def test_who_waits_elsewhere_is_a_victim() -> None:
    """Rank 3 stays away from its pair with 2; so 2 never comes to all, where 0 and 1 wait for both."""
    calls = [
        Call(0, 1, state=RUNS),
        Call(1, 1, state=RUNS),
        Call(2, 1, group=1, state=RUNS),
        Call(3, 0, group=1),
    ]
    assert [a.rank for a in find_absences(board(calls, [ALL, [2, 3]]))] == [3]


def test_in_a_circle_the_one_that_left_the_order_first_is_named() -> None:
    calls = [Call(0, 1, state=RUNS, start=5), Call(1, 1, group=1, state=RUNS, start=9)]
    assert find_absences(board(calls, [[0, 1], [0, 1]])) == [Absence(1, dead=False, row=0)]


@pytest.mark.parametrize(
    "calls",
    [
        call_all(1, ALL, RUNS),  # all have come
        call_all(1, [0, 1, 2], UNKNOWN),  # a recorder that does not say how far calls got
        [*call_all(1, [0, 1, 2], RUNS), Call(3, 2)],  # its ring dropped the call
    ],
)
def test_nobody_is_missed_where_nothing_says_so(calls: list[Call]) -> None:
    assert find_absences(board(calls, [ALL])) == []


@pytest.mark.parametrize(("ends", "late"), [(10, [3]), (17, [])])
def test_a_rank_whose_recording_ends_long_before_all_others_is_missed(
    ends: int, late: list[int]
) -> None:
    calls = [c for seq in range(21) for c in call_all(seq, ALL[:3] if seq > ends else ALL)]
    assert [a.rank for a in find_absences(board(calls, [ALL]))] == late


def test_a_group_of_which_few_were_recorded_misses_nobody() -> None:
    assert find_absences(board(call_all(1, [0]), [ALL])) == []
