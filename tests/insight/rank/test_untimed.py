"""Traces without times, shown in the order their dependencies allow."""

from __future__ import annotations

import chakrakit as ck
from chakrakit.insight.rank import scheduled


def test_durations_in_the_trace_are_kept_and_lanes_are_serial():
    t = ck.TraceBuilder()
    a = t.comp("a", duration_ns=10, stream=0)
    t.comp("b", duration_ns=20, stream=0)
    t.comp("c", duration_ns=5, stream=1, deps=[a])
    run, note = scheduled(ck.TraceSet([t.build()]))
    assert "durations in the trace" in note
    assert run.start(0).tolist() == [0, 10, 10]
    assert run.end(0).tolist() == [10, 30, 15]


def test_without_durations_every_node_takes_a_microsecond():
    t = ck.TraceBuilder()
    a = t.comp("a", num_ops=1)
    b = t.comp("b", num_ops=1, deps=[a])
    t.collective("c", ck.CollectiveType.ALL_REDUCE, 8, deps=[a, b])
    run, note = scheduled(ck.TraceSet([t.build()], {r: ck.Binding(0) for r in range(1000)}))
    assert "1 µs per node" in note
    assert run.end(999).tolist() == [1000, 2000, 3000]
    assert len(run.times) == 1


def test_ends_that_wait_for_ends_on_their_own_lane_are_not_made_serial():
    """A caller ends after its callee, and both run on one thread."""
    edges = ck.Edges.of([0, 1], [1, 0], [ck.EdgeKind.CALL, ck.EdgeKind.SYNC])
    trace = ck.Trace.from_columns(
        {
            "name": ["outer", "inner"],
            "type": [4, 4],
            "is_cpu_op": [True, True],
            "tid": [1, 1],
            "duration_ns": [5, 7],
        },
        edges,
    )
    run, _ = scheduled(ck.TraceSet([trace]))
    assert run.start(0).tolist() == [0, 0]
    assert run.end(0).tolist() == [7, 7]
