"""Calls matched with their times: who came last, who waited for whom, and what was transfer."""

from __future__ import annotations

import numpy as np

import chakrakit as ck
from chakrakit.insight.communication import match_calls
from chakrakit.insight.communication.matching import calls_per_instance
from chakrakit.trace.sets import Times, run_of
from support.timed_collectives import collectives


def test_a_call_waits_until_the_last_rank_has_come():
    matched = match_calls(collectives([[0, 20], [4, 18]], [14, 30]))
    assert matched.rank.tolist() == [0, 0, 1, 1]
    assert matched.instance.tolist() == [0, 1, 0, 1]
    assert matched.arrival.tolist() == [4, 20, 4, 20]
    assert matched.last.tolist() == [2, 1, 2, 1]
    assert matched.wait.tolist() == [4, 0, 0, 2]
    assert matched.transfer.tolist() == [10, 10, 10, 10]


def test_who_ended_before_the_last_came_did_not_wait_for_it():
    """The root of a broadcast may be gone before the others come."""
    run = collectives([[0], [50]], [60])
    root = Times(np.array([0]), np.array([10]))
    second = Times(np.array([50]), np.array([60]))
    matched = match_calls(run_of(ck.TraceSet(run.bodies, groups=run.groups), {0: root, 1: second}))
    assert matched.wait.tolist() == [0, 0]


def message(sent: int, received: tuple[int, int]) -> ck.Run:
    a, b = ck.TraceBuilder(), ck.TraceBuilder()
    a.send("s", 0, 1, 64)
    b.recv("r", 0, 1, 64)
    times = {
        0: Times(np.array([sent]), np.array([sent + 1])),
        1: Times(np.array([received[0]]), np.array([received[1]])),
    }
    return run_of(ck.TraceSet([a.build(), b.build()]), times, tick_ps=1000)


def test_a_receive_waits_for_its_send():
    matched = match_calls(message(30, (10, 50)))
    assert matched.partner.tolist() == [1, 0]
    assert matched.wait.tolist() == [0, 20]
    assert match_calls(message(5, (10, 50))).wait.tolist() == [0, 0]


def test_who_meets_in_a_call_is_known_by_rank_and_row():
    matched = match_calls(collectives([[0], [4], [2]], [14]))
    peers = matched.meeting(2, 0)
    assert peers is not None
    assert (peers.ranks.tolist(), matched.group_names[peers.group]) == ([0, 1, 2], "1")
    assert matched.last_rank(peers.call, peers.group) == 1
    assert matched.meeting(2, 5) is None
    second = match_calls(message(5, (10, 50))).meeting(0, 0)
    assert second is not None
    assert second.ranks.tolist() == [1]


def test_calls_of_ranks_that_are_alike_are_counted_by_weight():
    assert calls_per_instance(np.array([0, 1, 1]), np.array([4, 1, 2])).tolist() == [4, 3]
    assert calls_per_instance(np.zeros(0, np.int64), np.zeros(0, np.int64)).tolist() == [0]
