"""Who is always late: one rank alone, by how much, and since which call."""

from __future__ import annotations

import pytest

from chakrakit.insight.diagnosis.hangs import find_late
from support.boards import Call, board

RANKS, PERIOD = 6, 1000


def recording(calls: int, late: dict[int, int], since: int = 0, skew: int = 0) -> list[Call]:
    """Calls every 1000 that end at 500 for all; some ranks come late from a call on."""
    slow = []
    for rank in range(RANKS):
        for seq in range(calls):
            by = late.get(rank, 0) if seq >= since else 0
            clock = skew * rank
            begin = seq * PERIOD
            slow.append(Call(rank, seq, start=begin + by + clock, end=begin + 500 + clock))
    return slow


def lates(calls: list[Call], ranks: int = RANKS) -> list:
    return find_late(board(calls, [list(range(ranks))]))


def test_a_rank_that_always_comes_late_is_named_with_its_factor() -> None:
    [slow] = lates(recording(20, {2: 200}))
    assert (slow.rank, slow.row) == (2, 40)  # its first call
    assert slow.factor == pytest.approx(1.2)


def test_a_rank_that_became_late_is_named_since_that_call() -> None:
    [slow] = lates(recording(20, {2: 200}, since=12))
    assert (slow.rank, slow.row) == (2, 52)


@pytest.mark.parametrize(
    "calls",
    [
        recording(20, {}),
        recording(20, {2: 40}),  # less than a twentieth of the time between calls
        recording(7, {2: 200}),  # too few calls
        recording(20, {2: 200}, since=19),  # once
        recording(20, {1: 200, 2: 200, 4: 200}),  # many: a matter of placement
        recording(20, {2: 500}),  # calls of no length: their times are not known
    ],
)
def test_nobody_else_is(calls: list[Call]) -> None:
    assert lates(calls) == []


def test_clocks_that_differ_make_nobody_late() -> None:
    assert lates(recording(20, {}, skew=300)) == []


def test_three_ranks_are_too_few_to_stand_alone_among() -> None:
    calls = [c for c in recording(20, {2: 200}) if c.rank < 3]
    assert lates(calls, 3) == []
