"""What each start and end waited for last: an edge, its lane, its own work, or what the run recorded."""

from __future__ import annotations

import numpy as np

import chakrakit as ck
from chakrakit.insight.rank import Cause, Causes, causes_of, rank_view
from chakrakit.trace.sets import Times, run_of


def causes(
    t: ck.TraceBuilder, *spans: tuple[int, int], recorded: list[int] | None = None
) -> Causes:
    start, end = (np.array(c) for c in zip(*spans, strict=True))
    binding = None if recorded is None else np.array(recorded, np.int32)
    times = Times(start, end, binding_row=binding)
    return causes_of(
        rank_view(run_of(ck.TraceSet([t.build()]), {0: times}, tick_ps=1000), 0), times
    )


def test_the_latest_constraint_that_does_not_come_after_the_start_explains_it():
    t = ck.TraceBuilder()
    for stream in range(3):
        t.comp(f"k{stream}", stream=stream)
    t.edge(0, 2, ck.EdgeKind.DATA)
    t.edge(1, 2, ck.EdgeKind.EVENT)
    row_causes = causes(t, (0, 10), (0, 30), (30, 40))
    assert (row_causes.start[2], row_causes.start_row[2], row_causes.start_when[2]) == (
        ck.EdgeKind.EVENT,
        1,
        30,
    )
    assert row_causes.start_at_end[2]
    contradicted = causes(
        t, (0, 10_000), (0, 30_000), (20_000, 40_000)
    )  # it began before the event
    assert (contradicted.start[2], contradicted.start_row[2]) == (ck.EdgeKind.DATA, 0)


def test_of_edges_that_bind_equally_the_one_with_the_least_lag_says_most():
    t = ck.TraceBuilder()
    for stream in range(3):
        t.comp(f"k{stream}", stream=stream)
    t.edge(0, 2, ck.EdgeKind.DATA, lag_ns=20)
    t.edge(1, 2, ck.EdgeKind.EVENT)
    assert causes(t, (0, 10), (0, 30), (30, 40)).start_row[2] == 1


def test_a_row_starts_when_its_lane_is_free():
    t = ck.TraceBuilder()
    t.comp("first", stream=1)
    t.comp("second", stream=1)
    row_causes = causes(t, (0, 10), (10, 15))
    assert (row_causes.start[1], row_causes.start_row[1], row_causes.start_when[1]) == (
        Cause.LANE,
        0,
        10,
    )
    assert row_causes.start[0] == Cause.NOTHING


def test_a_row_ends_when_its_work_is_done_or_with_what_runs_inside():
    t = ck.TraceBuilder()
    outer = t.comp("outer", is_cpu_op=True, tid=1, own_ns=5)
    t.comp("inner", is_cpu_op=True, tid=1, parent=outer)
    row_causes = causes(t, (0, 30), (5, 28))
    assert (row_causes.end[0], row_causes.end_row[0]) == (Cause.INSIDE, 1)
    assert (row_causes.end[1], row_causes.end_row[1], row_causes.end_when[1]) == (Cause.OWN, -1, 28)


def test_an_end_that_waits_for_another_end_says_so():
    t = ck.TraceBuilder()
    t.comp("kernel", stream=1)
    t.comp("wait", is_cpu_op=True, tid=1, own_ns=2)
    t.edge(0, 1, ck.EdgeKind.SYNC)
    row_causes = causes(t, (0, 50), (10, 50))
    assert (row_causes.end[1], row_causes.end_row[1], row_causes.end_when[1]) == (
        ck.EdgeKind.SYNC,
        0,
        50,
    )


def test_a_run_that_recorded_what_was_waited_for_is_taken_at_its_word():
    t = ck.TraceBuilder()
    for stream in range(3):
        t.comp(f"k{stream}", stream=stream)
    t.edge(1, 2, ck.EdgeKind.EVENT)
    row_causes = causes(t, (0, 10), (0, 30), (30, 40), recorded=[-1, -1, 0])
    assert (row_causes.start[2], row_causes.start_row[2]) == (Cause.RECORDED, 0)
    same = causes(t, (0, 10), (0, 30), (30, 40), recorded=[-1, -1, 1])
    assert same.start[2] == ck.EdgeKind.EVENT  # what was found says more
