"""A rank's recorded calls as a communication trace."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from chakrakit import CollectiveType
from chakrakit.sources.calls import RecordedGroup, call_trace, read_dump, times
from chakrakit.sources.calls.trace import BETWEEN, followers, kinds_of, node_times
from chakrakit.sources.pytorch import names as words
from support.recorders import dump_of


def test_messages_name_their_ends_as_ranks() -> None:
    dump = dump_of(6, 8, 3, seed=0)
    dump["entries"][1] |= {"profiling_name": "nccl:send 2->0", "is_p2p": True, "p2p_seq_id": 1}

    calls = read_dump(json.dumps(dump).encode())
    trace = call_trace(calls, [g.name for g in calls.groups], np.zeros(0, np.int64))

    assert trace[3].get("comm_src") == 6
    assert trace[3].get("comm_dst") == 4


def test_a_call_lasts_from_its_issue_to_its_end_if_it_has_one(made):
    calls = [("nccl:all_reduce", 0, 10, 25), ("nccl:all_reduce", 0, 30, -1)]
    assert [t.tolist() for t in times(made(calls))] == [[10, 30], [25, 30]]
    assert [t.tolist() for t in times(made(calls, state="started"))] == [[10, 30], [10, 30]]


def test_without_an_end_the_device_s_own_time_counts_from_the_start(made):
    calls = replace(
        made([("nccl:all_reduce", 0, 10, -1)]), started=np.array([14]), device_ns=np.array([6])
    )
    assert [t.tolist() for t in times(calls)] == [[10], [20]]


def test_what_lies_between_calls_has_nodes_of_its_own(made):
    calls = made([("nccl:all_reduce", 0, 110, 125), ("nccl:all_gather", 0, 130, 140)])
    trace = call_trace(calls, ["world"], np.array([1]))
    assert trace.names.to_pylist() == [BETWEEN, "nccl:all_reduce", BETWEEN, "nccl:all_gather"]
    assert [t.tolist() for t in node_times(calls, 100)] == [[10, 10, 10, 30], [10, 25, 30, 40]]
    assert sorted(zip(trace.edges.src, trace.edges.dst, strict=True)) == [
        (0, 1),
        (1, 2),  # the host issues the second after the first,
        (1, 3),  # which begins only once the first has ended
        (2, 3),
    ]


def test_bytes_are_those_of_all_tensors_of_a_call(made):
    """A tensor of 4 by 2 floats and one of 3 half-precision numbers."""
    trace = call_trace(made([("nccl:all_reduce", 0, 0, 5)]), ["world"], np.zeros(0, np.int64))
    call = trace[1]
    assert (call.get("comm_size"), call.get("comm_dtype")) == (4 * 2 * 4 + 3 * 2, "float")
    assert (call.get("comm_type"), call.get("pg_name")) == (CollectiveType.ALL_REDUCE, "world")
    assert trace[0].get("comm_size") is None


def test_a_call_follows_the_one_before_it_in_its_group(made):
    groups = [RecordedGroup("a", "", (0, 1)), RecordedGroup("b", "", (0, 2))]
    rows = [("x", 0, 0, 10), ("x", 1, 5, 30), ("x", 0, 12, 20), ("x", 1, 25, 40)]
    before, ended = followers(made(rows, groups))
    assert (before.tolist(), ended.tolist()) == ([-1, -1, 0, 1], [False, False, True, False])


def test_kinds_are_told_by_names(made):
    calls = made(
        [("nccl:send 0->1", 0, 0, 1), ("frobnicate", 0, 2, 3), ("nccl:recv 0<-1", 0, 4, 5)]
    )
    assert kinds_of(calls).tolist() == [words.SEND, words.UNKNOWN, words.RECV]
