"""Corrected times of all ranks together: nobody leaves a collective before the last has come."""

from __future__ import annotations

from chakrakit.sources.pytorch import names as words
from chakrakit.sources.pytorch.calls import RecordedCollective
from chakrakit.sources.pytorch.clocks import RankCollectives
from chakrakit.sources.pytorch.linking.meeting import meet
from chakrakit.trace.model import CollectiveType as C
from chakrakit.trace.model import EdgeKind, Edges, Trace


def rank(compute, communication=1):
    """A rank that computes and then communicates, as long as its own correction says."""
    times = {"start_time_ns": [0, compute], "duration_ns": [compute, communication]}
    edges = Edges.of([0], [1], EdgeKind.THREAD)
    return Trace.from_columns({"name": ["compute", "communicate"], **times}, edges)


def recorded(start, end, kind=C.ALL_REDUCE, peer=-1):
    call = RecordedCollective(1, 1, kind, "x", group="0", sequence=0, peer=peer)
    return RankCollectives([call], [start], [end])


def met(bodies, seen, begin=(0, 0)):
    found = meet(
        dict(enumerate(bodies)), dict(enumerate(seen)), dict(enumerate(begin)), {0: 0, 1: 0}
    )
    return {r: (start.tolist(), end.tolist()) for r, (start, end) in found.items()}


def test_a_collective_takes_its_transfer_after_the_last_rank_has_come():
    """Recorded, they came at 10 and 30 and left at 40: a transfer of 10. Now they come at 5 and 12."""
    assert met([rank(5), rank(12)], [recorded(10, 40), recorded(30, 40)]) == {
        0: ([0, 5], [5, 22]),
        1: ([0, 12], [12, 22]),
    }


def test_a_rank_that_begins_later_comes_later():
    """Rank 1's recording began 100 later on the clock of all, so its call lasted from 130 to 140."""
    seen = [recorded(10, 140), recorded(30, 40)]
    assert met([rank(5), rank(12)], seen, begin=(0, 100))[0] == ([0, 5], [5, 122])


def test_a_message_holds_its_receiver_alone():
    """It was sent at 10 and received at 20; now it is sent at 3, and the receiver comes at 5."""
    seen = [recorded(10, 12, words.SEND, peer=1), recorded(5, 20, words.RECV, peer=0)]
    assert met([rank(3, 2), rank(5)], seen) == {0: ([0, 3], [3, 5]), 1: ([0, 5], [5, 15])}


def test_clocks_too_far_apart_to_tell_who_waited_leave_each_rank_alone():
    assert met([rank(5, 7), rank(12, 7)], [recorded(10, 40), recorded(50, 60)]) == {
        0: ([0, 5], [5, 12]),
        1: ([0, 12], [12, 19]),
    }


def test_a_call_that_no_other_rank_recorded_is_no_meeting():
    silent = RankCollectives([], [], [])
    assert met([rank(5), rank(12)], [recorded(10, 40), silent]) == {}
