"""Ranks that do the same at the same times: one is looked at, and gives the answers of all."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight.communication import Matched, match_calls
from chakrakit.insight.communication.matching import Alike
from chakrakit.trace.sets import Times, run_of


def pairs() -> ck.Run:
    """Ranks 0 and 1, 2 and 3 sum in pairs, then the even one sends to the odd one; odd ones come late."""
    send, receive = ck.TraceBuilder(), ck.TraceBuilder()
    for t in (send, receive):
        t.collective("c", ck.CollectiveType.ALL_REDUCE, 64, pg_name="pair")
    send.send("s", 0, 1, 8)
    receive.recv("r", 0, 1, 8)
    bindings = {
        r: ck.Binding(r % 2, {"pair": "xy"[r // 2]}, {0: r // 2 * 2, 1: r // 2 * 2 + 1})
        for r in range(4)
    }
    traces = ck.TraceSet(
        [send.build(), receive.build()], bindings, ck.Groups({"x": [0, 1], "y": [2, 3]})
    )
    times = {r: Times(np.array([3 * (r % 2), 20]), np.array([10, 30])) for r in range(4)}
    return run_of(traces, times, tick_ps=1000)


@pytest.fixture(scope="module")
def folded() -> Matched:
    return match_calls(pairs(), [(0, 2), (1, 3)])


def alike_of(matched: Matched) -> Alike:
    assert matched.alike is not None
    return matched.alike


def test_the_lowest_rank_stands_for_those_like_it(folded: Matched) -> None:
    assert sorted(set(folded.rank.tolist())) == [0, 1]
    assert [folded.looked_at(rank) for rank in range(4)] == [0, 1, 0, 1]
    assert alike_of(folded).ranks_like(1) == [1, 3]
    assert [folded.group_names[c] for c in alike_of(folded).groups_like(0)] == ["x", "y"]
    assert folded.copies.tolist() == [2] * len(folded)


def test_ends_of_messages_are_those_of_each_rank(folded: Matched) -> None:
    ends = np.array([0, 1, 77])
    assert alike_of(folded).moved(0, ends).tolist() == [[0, 1, 77], [2, 3, 77]]


def test_the_last_to_come_is_found_in_every_group(folded: Matched) -> None:
    """Odd ranks come 3 later: 1 in the first pair and 3 in the second."""
    call = int(np.flatnonzero(folded.collective)[0])
    assert [folded.last_rank(call, code) for code in (0, 1)] == [1, 3]


def test_a_meeting_is_that_of_the_rank_which_asks(folded: Matched) -> None:
    peers = folded.meeting(3, 0)
    assert peers is not None
    assert folded.group_names[peers.group] == "y"
    assert peers.ranks.tolist() == [2, 3]
    second = folded.meeting(2, 1)
    assert second is not None
    assert second.ranks.tolist() == [3]


def test_folded_and_unfolded_calls_wait_alike(folded: Matched) -> None:
    whole = match_calls(pairs())
    assert whole.alike is None
    for rank in range(4):
        mine, its = whole.rank == rank, folded.rank == folded.looked_at(rank)
        assert whole.wait[mine].tolist() == folded.wait[its].tolist()
