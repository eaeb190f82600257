"""One rank as every analysis sees it: kinds of work, lanes, callers and operators."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.errors import ChakraError
from chakrakit.insight.rank import RankView, RowKind, body_view, comm_name, rank_view, view_of
from chakrakit.trace.sets import Times

AR = ck.CollectiveType.ALL_REDUCE


def view(t: ck.TraceBuilder, *spans: tuple[int, int]) -> RankView:
    start, end = (np.array(c) for c in zip(*spans, strict=True))
    return view_of(0, t.build(), Times(start, end), 1000)


def test_work_is_compute_communication_copies_or_the_hosts():
    t = ck.TraceBuilder()
    t.comp("gemm", stream=7)
    t.comp("Memcpy HtoD", stream=7)
    t.node("load", ck.NodeType.MEM_LOAD_NODE, is_cpu_op=False)
    t.collective("sum", AR, 8, stream=20)
    t.comp("op", is_cpu_op=True, tid=1)
    t.comp("never ran", stream=7)
    kinds = view(t, (0, 1), (1, 2), (2, 3), (3, 4), (0, 9), (-1, -1)).kind.tolist()
    assert kinds == [
        RowKind.COMPUTE,
        RowKind.COPY,
        RowKind.COPY,
        RowKind.COMM,
        RowKind.HOST,
        RowKind.NONE,
    ]


def test_where_nothing_runs_on_a_device_the_innermost_operators_compute():
    t = ck.TraceBuilder()
    outer = t.comp("outer", is_cpu_op=True, tid=1)
    t.comp("inner", is_cpu_op=True, tid=1, parent=outer)
    rows = view(t, (0, 9), (2, 5))
    assert rows.kind.tolist() == [RowKind.HOST, RowKind.COMPUTE]
    assert rows.parent.tolist() == [-1, 0]


def test_a_kernel_belongs_to_the_operator_around_its_launch():
    t = ck.TraceBuilder()
    operator = t.comp("op", is_cpu_op=True, tid=1)
    call = t.comp("cudaLaunchKernel", is_cpu_op=True, tid=1, parent=operator)
    t.edge(call, t.comp("kernel", stream=7), ck.EdgeKind.LAUNCH)
    rows = view(t, (0, 9), (2, 5), (6, 20))
    assert rows.is_runtime.tolist() == [False, True, False]
    assert rows.operator.tolist() == [0, 0, 0]


def test_a_thread_that_only_calls_the_runtime_is_background():
    t = ck.TraceBuilder()
    t.comp("op", is_cpu_op=True, tid=1)
    t.comp("cudaEventQuery", is_cpu_op=True, tid=2)
    assert view(t, (0, 9), (0, 9)).background.tolist() == [False, True]


def test_lanes_are_streams_threads_and_engines_of_the_device():
    t = ck.TraceBuilder()
    t.comp("k", stream=7)
    t.comp("op", is_cpu_op=True, tid=3)
    t.collective("sum", AR, 8)
    t.recv("r", 1, 0, 8)
    rows = view(t, (0, 1), (0, 1), (0, 1), (0, 1))
    lane, names = rows.lanes
    assert [names[n] for n in lane] == [
        "device 0 stream 7",
        "thread 3",
        "device 0 comm",
        "device 0 receive",
    ]


def test_a_lane_whose_rows_overlap_has_no_order():
    t = ck.TraceBuilder()
    for stream in (1, 1, 2, 2):
        t.comp("k", stream=stream)
    before, after = view(t, (0, 5), (5, 9), (0, 5_000), (2_000, 9_000)).lane_pairs
    assert (before.tolist(), after.tolist()) == ([0], [1])


def test_a_host_row_that_waits_is_busy_at_its_end():
    t = ck.TraceBuilder()
    t.comp("op", is_cpu_op=True, tid=1, own_ns=3)
    rows = view(t, (0, 10))
    assert rows.own.tolist() == [3]
    busy = rows.busy(RowKind.COMPUTE)  # nothing runs on a device
    assert (busy.start.tolist(), busy.end.tolist()) == ([7], [10])


def test_a_body_shows_the_groups_of_the_rank_that_runs_it():
    t = ck.TraceBuilder()
    t.collective("sum", AR, 8, pg_name="tp")
    times = Times(np.array([0]), np.array([5]))
    rows = body_view(3, t.build(), ck.Binding(0, {"tp": "5"}), times, 1000)
    codes, texts = rows.texts("pg_name")
    assert [texts[c] for c in codes] == ["5"]
    assert (rows.rank, comm_name(rows, 0), rows.span) == (3, "ALL_REDUCE", (0, 5))


def test_times_that_do_not_fit_the_trace_are_refused():
    t = ck.TraceBuilder()
    t.comp("a")
    with pytest.raises(ChakraError, match="1 nodes and times for 2"):
        view(t, (0, 1), (1, 2))


def test_picoseconds_become_whole_nanoseconds(two_ranks: ck.Run):
    assert rank_view(two_ranks, 1).end.tolist() == [30_000, 50_000, 55_000]
    t = ck.TraceBuilder()
    t.comp("a", stream=1)
    rows = view_of(0, t.build(), Times(np.array([1_500]), np.array([2_999])), 1)
    assert (rows.start.tolist(), rows.end.tolist()) == ([1], [2])
    nothing = view(t, (-1, -1))
    assert nothing.span == (0, -1)
