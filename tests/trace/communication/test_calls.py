"""The calls of one body: in the order of issue, numbered, and merged for ranks to which names are one."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit import CollectiveType, NodeType, Trace, TraceBuilder
from chakrakit.trace.communication import UNKNOWN, CallsReader, read_calls, turns

AR = CollectiveType.ALL_REDUCE


def test_turns_count_equal_entries_before() -> None:
    assert turns(np.array([1, 2, 1, 1]), np.array([0, 0, 0, 5])).tolist() == [0, 0, 1, 0]
    assert turns(np.zeros(0, np.int64)).tolist() == []


def test_what_a_trace_does_not_say_is_unknown_and_counts_no_bytes() -> None:
    trace = Trace.from_columns({"name": ["a"], "type": [int(NodeType.COMM_COLL_NODE)]})
    calls = read_calls(trace)
    assert (calls.kind.tolist(), calls.size.tolist(), calls.seq.tolist()) == (
        [UNKNOWN],
        [UNKNOWN],
        [UNKNOWN],
    )
    assert (calls.bytes.tolist(), calls.names, calls.tag.tolist()) == ([0], ("",), [0])


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_rows_count_through_all_pieces(cut: int) -> None:
    t = TraceBuilder()
    t.comp("first")
    t.collective("sum", AR, 8, pg_name="a")
    t.collective("sum", AR, 8, pg_name="b")
    trace, reader = t.build(), CallsReader()
    for piece in (trace.table.slice(0, cut), trace.table.slice(cut)):
        reader.add(Trace(piece, trace.layouts))
    calls = reader.finish()
    assert calls.row.tolist() == [1, 2]
    assert [calls.names[r] for r in calls.role] == ["a", "b"]
    assert reader.rows == 3


def test_one_number_that_is_missing_makes_a_group_count_by_turn() -> None:
    t = TraceBuilder()
    t.collective("first", AR, 8, pg_name="a", comm_seq=7, start_ns=1)
    t.collective("second", AR, 8, pg_name="a", start_ns=2)
    t.collective("other", AR, 8, pg_name="b", comm_seq=9, start_ns=3)
    assert read_calls(t.build()).number.tolist() == [0, 1, 9]


def test_groups_and_peers_that_are_one_to_a_rank_are_merged_into_the_first() -> None:
    t = TraceBuilder()
    t.collective("a", AR, 8, pg_name="a", start_ns=1)
    t.collective("b", AR, 8, pg_name="b", start_ns=2)
    t.send("s", 0, 7, 16, start_ns=3)
    t.recv("r", 8, 0, 16, start_ns=4)
    calls = read_calls(t.build())
    assert calls.peers.tolist() == [7, 8]
    merged = calls.merged(["x", "x"], [3, 3])
    assert [merged.names[r] for r in merged.role[:2]] == ["a", "a"]
    assert merged.number.tolist() == [0, 1, 0, 0]
    assert merged.peer.tolist() == [-1, -1, 7, 7]
    assert calls.merged(["x", "y"], [3, 4]).peer.tolist() == [-1, -1, 7, 8]


def test_a_channel_holds_one_direction_peer_and_tag() -> None:
    t = TraceBuilder()
    for start, tag in enumerate((5, 6, 5)):
        t.send("s", 0, 1, 16 + start, tag, start_ns=start)
    t.recv("r", 1, 0, 4, 5, start_ns=9)
    found = [(c.is_send, c.peer, c.tag, c.size.tolist()) for c in read_calls(t.build()).channels]
    assert found == [(True, 1, 5, [16, 18]), (True, 1, 6, [17]), (False, 1, 5, [4])]


def test_calls_are_in_the_order_of_issue_and_know_their_number() -> None:
    t = TraceBuilder()
    t.collective("late", CollectiveType.ALL_REDUCE, 8, start_ns=9, pg_name="a")
    t.send("s", 0, 1, 16, 7, start_ns=2)
    t.collective("early", CollectiveType.ALL_GATHER, 8, start_ns=1, pg_name="a")
    t.collective("told", CollectiveType.ALL_REDUCE, 8, start_ns=3, pg_name="b", comm_seq=5)
    calls = read_calls(t.build())
    assert calls.row.tolist() == [2, 1, 3, 0]
    assert calls.number.tolist() == [0, 0, 5, 1]
    assert calls.recorded.tolist() == [False, False, True, False]
    assert [calls.names[r] for r in calls.roles] == ["a", "b"]
    assert [(c.is_send, c.peer, c.tag) for c in calls.channels] == [(True, 1, 7)]
