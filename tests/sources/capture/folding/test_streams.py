"""Streams and events as the framework would use them on a GPU."""

from __future__ import annotations

import pytest

from chakrakit.sources.capture.folding.bodies import COMPUTE, streams_of
from chakrakit.sources.capture.recording import CommCall
from chakrakit.sources.pytorch import names as words
from chakrakit.trace.model import CollectiveType as C

HOST = -1
REDUCE = {"comm": CommCall(C.ALL_REDUCE, "0", 8, 8, "float32")}


@pytest.fixture
def placed(recorded):
    def of(*ops):
        found = streams_of(recorded(*ops))
        return found.stream.tolist(), found.events

    return of


def test_a_collective_begins_after_the_compute_before_it_and_is_waited_for(placed):
    ops = [
        ("aten::mm", {}),
        ("c10d::allreduce_", REDUCE),
        ("aten::mm", {}),
        ("c10d::wait", {"waits_for": 1}),
    ]
    assert placed(*ops) == ([COMPUTE, 1, COMPUTE, COMPUTE], [(0, 1), (1, 3)])


def test_views_and_what_runs_on_the_host_are_on_no_stream(placed):
    ops = [("aten::view", {}), ("aten::mm", {"is_host": True}), ("aten::mm", {})]
    assert placed(*ops) == ([HOST, HOST, COMPUTE], [])


def test_each_group_and_each_direction_of_messages_has_a_stream_of_its_own(placed):
    def message(kind, peer):
        return {"comm": CommCall(kind, "pp", 8, 8, "float32", peer=peer)}

    ops = [
        ("c10d::allreduce_", REDUCE),
        ("c10d::send", message(words.SEND, 1)),
        ("c10d::recv_", message(words.RECV, 1)),
        ("c10d::send", message(words.SEND, 2)),
        ("c10d::allreduce_", REDUCE),
    ]
    assert placed(*ops)[0] == [1, 2, 3, 4, 1]


def test_a_collective_on_a_side_stream_does_not_wait_for_the_compute_of_another(placed):
    """As FSDP gathers: it copies in on one stream, gathers on a second, and compute waits for an event."""
    gather = {"comm": CommCall(C.ALL_GATHER, "0", 8, 32, "float32"), "stream": 2}
    ops = [
        ("aten::mm", {}),
        ("fsdp::all_gather_copy_in", {"stream": 1}),
        ("c10d::_allgather_base_", {**gather, "after": [1]}),
        ("c10d::wait", {"waits_for": 2, "stream": 2}),
        ("aten::view", {"after": [3]}),
        ("fsdp::split_with_sizes_copy", {}),
    ]
    stream, events = placed(*ops)
    assert stream == [COMPUTE, 1, 2, 3, HOST, COMPUTE]
    assert events == [(1, 2), (1, 3), (2, 3), (3, 5)]


def test_waiting_for_a_view_is_waiting_for_what_its_stream_ran_before(placed):
    ops = [("aten::mm", {"stream": 1}), ("aten::view", {"stream": 1}), ("aten::mm", {"after": [1]})]
    assert placed(*ops) == ([1, HOST, COMPUTE], [(0, 2)])
