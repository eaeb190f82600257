"""Communication that a worker thread does beside its caller, as gloo's: who issues it, who waits."""

from __future__ import annotations

import pytest

from chakrakit.trace.model import EdgeKind
from support.rescheduled import kinds, plan


@pytest.fixture
def reduced(recording):
    """An all-reduce issued at 0 that gloo's thread does from 15 to 115."""
    recording.device = "cpu"
    recording.op("c10d::allreduce_", 0, 10, reads=(1,))
    recording.op("gloo:all_reduce", 15, 100, tid=5, reads=(1,))
    return recording


def test_the_call_launches_what_the_worker_does(reduced):
    rank = reduced.link()
    assert kinds(rank, EdgeKind.LAUNCH) == [("c10d::allreduce_", "gloo:all_reduce")]
    assert plan(rank)["gloo:all_reduce"] == (15, 115)


def test_a_gap_in_which_communication_ended_was_waiting_for_it(reduced):
    reduced.op("aten::neg", 120, 5)
    rank = reduced.link()
    assert kinds(rank, EdgeKind.SYNC) == [("gloo:all_reduce", "aten::neg")]
    assert plan(rank, **{"gloo:all_reduce": 200})["aten::neg"] == (220, 225)
    assert plan(rank, **{"gloo:all_reduce": 0})["aten::neg"] == (20, 25)


def test_an_operator_that_says_it_waits_ends_with_the_communication(reduced):
    reduced.op("_c10d_functional::wait_tensor", 20, 98)
    rank = reduced.link()
    waiting = ("gloo:all_reduce", "_c10d_functional::wait_tensor")
    assert kinds(rank, EdgeKind.SYNC) == [waiting]
    assert plan(rank, **{"gloo:all_reduce": 200})[waiting[1]][1] == 218


def test_a_thread_that_went_on_working_waited_for_nothing(reduced):
    reduced.op("aten::mm", 12, 150)
    reduced.op("aten::neg", 165, 5)
    rank = reduced.link()
    assert kinds(rank, EdgeKind.SYNC) == []
    assert plan(rank, **{"gloo:all_reduce": 500})["aten::neg"] == (165, 170)
