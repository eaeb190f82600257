"""Lanes and the order of issue: what runs after what where no edge says so."""

import chakrakit as ck
from chakrakit.trace.model import EdgeKind, Edges
from chakrakit.trace.placement import (
    NO_LANE,
    implied_order,
    issue_order,
    lane_number,
    lane_of,
    stream_lane,
)


def rows(*streams, host=()):
    """One computation per stream (None: it says none), then one host row per thread."""
    t = ck.TraceBuilder()
    for i, stream in enumerate(streams):
        said = {} if stream is None else {"stream": stream}
        t.comp(f"k{i}", duration_ns=10, **said)
    for i, thread in enumerate(host):
        t.comp(f"h{i}", duration_ns=10, is_cpu_op=True, tid=thread)
    return t.build()


def test_streams_and_threads_have_lanes_of_their_own():
    lanes = lane_of(rows(7, -1, 1, None, 7, host=(7, 0))).tolist()
    assert lanes[0] == lanes[4] == stream_lane(7)
    assert lanes[3] == NO_LANE
    assert len({*lanes}) == 6  # streams 7, -1 and 1, none, threads 7 and 0


def test_a_lane_knows_its_stream_or_thread():
    lanes = lane_of(rows(7, -1, 1, 0, host=(7, -3)))
    assert [lane_number(lane) for lane in lanes.tolist()] == [7, -1, 1, 0, 7, -3]


def test_rows_of_a_lane_follow_each_other_in_the_order_of_issue():
    trace = rows(7, 20, 7, None, 20)
    assert issue_order(trace).tolist() == [0, 1, 2, 3, 4]
    before, after = implied_order(trace)
    assert [*zip(before.tolist(), after.tolist(), strict=True)] == [(0, 2), (1, 4)]


def test_stream_edges_replace_the_order_of_streams_and_not_that_of_threads():
    trace = rows(7, 7, host=(1, 1))
    edge = Edges.of([0], [1], EdgeKind.STREAM)
    before, after = implied_order(trace.with_edges(edge))
    assert (before.tolist(), after.tolist()) == ([2], [3])
