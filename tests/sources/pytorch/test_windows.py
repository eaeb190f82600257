"""Recordings that begin at different calls: numbers are moved until calls that end together agree."""

from __future__ import annotations

from chakrakit.sources.pytorch.calls import RecordedCollective
from chakrakit.sources.pytorch.clocks import RankCollectives, align_windows
from chakrakit.trace.model import CollectiveType as C

KINDS = (C.ALL_GATHER, C.ALL_REDUCE, C.ALL_REDUCE, C.REDUCE_SCATTER)
ENDS = (100, 200, 300, 400)


def _window(first, last, group="0"):
    """The calls of a window, numbered from 0, as a recording of that window has them."""
    calls = [
        RecordedCollective(0, 0, kind, "x", group=group, sequence=n)
        for n, kind in enumerate(KINDS[first:last])
    ]
    return RankCollectives(calls, [0] * len(calls), list(ENDS[first:last]))


def _numbers(ranks):
    return {rank: [c.sequence for c in seen.collectives] for rank, seen in ranks.items()}


def test_a_recording_that_began_one_call_later_is_numbered_one_higher():
    ranks = {0: _window(0, 4), 1: _window(1, 4)}
    assert align_windows(ranks, {0: 1, 1: 1}) == 1
    assert _numbers(ranks) == {0: [0, 1, 2, 3], 1: [1, 2, 3]}


def test_all_that_began_later_or_ended_earlier_are_numbered_as_the_longest():
    ranks = {
        0: _window(1, 4),
        1: _window(0, 4),
        2: _window(2, 4),
        3: _window(0, 2),
        4: _window(0, 3),
    }
    assert align_windows(ranks, dict.fromkeys(ranks, 1)) == 2
    numbers = {0: [1, 2, 3], 1: [0, 1, 2, 3], 2: [2, 3], 3: [0, 1], 4: [0, 1, 2]}
    assert _numbers(ranks) == numbers


def test_of_equal_kinds_the_nearest_ends_decide():
    """One all-reduce may be either of two; on the common clock it ended with the second."""
    ranks = {0: _window(1, 3), 1: _window(2, 3)}
    assert align_windows(ranks, {0: 1_000, 1: 1_005}) == 1
    assert _numbers(ranks) == {0: [0, 1], 1: [1]}


def test_recordings_of_the_same_length_are_left_alone():
    ranks = {0: _window(0, 3), 1: _window(1, 4)}
    assert align_windows(ranks, {0: 1, 1: 1}) == 0
    assert _numbers(ranks) == {0: [0, 1, 2], 1: [0, 1, 2]}


def test_without_a_common_clock_nothing_is_moved():
    ranks = {0: _window(0, 4), 1: _window(1, 4)}
    assert align_windows(ranks, {0: 1, 1: 0}) == 0
    assert _numbers(ranks)[1] == [0, 1, 2]


def test_numbers_that_the_back_end_wrote_are_believed():
    ranks = {0: _window(0, 4), 1: _window(1, 4)}
    for n, call in enumerate(ranks[1].collectives):
        call.sequence = 70 + n
    assert align_windows(ranks, {0: 1, 1: 1}) == 0
    assert _numbers(ranks)[1] == [70, 71, 72]
