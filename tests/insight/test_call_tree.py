"""Device time as a tree of modules, operators and kernels."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight import call_tree
from chakrakit.insight.operators import operators_of
from chakrakit.insight.rank import rank_view
from chakrakit.trace.model import EdgeKind, Edges, NodeType
from chakrakit.trace.sets import Times, run_of
from chakrakit.trace.timing import Intervals
from support.recorded import linked


def _generated() -> ck.Run:
    t = ck.TraceBuilder()
    for name in ("layers.0.mlp.up", "layers.1.mlp.up", "layers.0.norm", "loss"):
        t.comp(name, stream=0)
    start = np.array([0, 10, 20, 30], np.int64)
    return run_of(ck.TraceSet([t.build()]), {0: Times(start, start + 10)}, tick_ps=1000)


def _shown(calls):
    return [(c.depth, c.name, c.time_ns, c.count) for c in calls]


def test_numbered_layers_count_as_one_and_the_longest_come_first():
    view = rank_view(_generated(), 0)
    assert _shown(call_tree(view, 0, 40)) == [
        (0, "all", 40, 4),
        (1, "layers", 30, 3),
        (2, "*", 30, 3),
        (3, "mlp", 20, 2),
        (4, "up", 20, 2),
        (3, "norm", 10, 1),
        (1, "loss", 10, 1),
    ]


def test_a_stretch_counts_the_part_inside_and_small_calls_are_left_out():
    view = rank_view(_generated(), 0)
    assert _shown(call_tree(view, 15, 32))[0] == (0, "all", 17, 3)
    assert [c.name for c in call_tree(view, 15, 32, least=0.2)] == [
        "all",
        "layers",
        "*",
        "norm",
        "mlp",
        "up",
    ]
    assert _shown(call_tree(view, 100, 200)) == [(0, "all", 0, 0)]


@pytest.mark.parametrize("name", ["gpt_pp_2", "two_streams", "decode_graph"])
def test_a_recording_sums_to_the_time_of_its_operators(name):
    run = linked(name)
    view = rank_view(run, run.ranks[0])
    calls = call_tree(view, *view.span)
    assert calls[0].time_ns == pytest.approx(operators_of(view).total_ns, rel=1e-6, abs=2)
    inside = sum(c.time_ns for c in calls if c.depth == 1)
    assert inside == pytest.approx(calls[0].time_ns, rel=1e-6, abs=len(calls))


def test_calls_of_the_host_stand_around_the_kernels_that_they_launch():
    """A module in the first row calls an operator, which launches a kernel of 20 ns."""
    trace = ck.Trace.from_columns(
        {
            "id": [1, 2, 3],
            "name": ["encoder", "aten::mm", "gemm"],
            "type": [int(NodeType.COMP_NODE)] * 3,
            "is_cpu_op": [True, True, False],
            "parent": [None, 1, None],
            "stream": [0, 0, 7],
        },
        edges=Edges.of([1], [2], EdgeKind.LAUNCH),
    )
    times = Times(np.array([0, 10, 30], np.int64), np.array([100, 20, 50], np.int64))
    run = run_of(ck.TraceSet([trace]), {0: times}, tick_ps=1000)
    assert _shown(call_tree(rank_view(run, 0), 0, 100)) == [
        (0, "all", 20, 1),
        (1, "encoder", 20, 1),
        (2, "aten::mm", 20, 1),
        (3, "gemm", 20, 1),
    ]


def test_communication_that_only_waits_is_apart_from_calls():
    """A receive from 0 to 100 ns waits until 60; of a stretch from 50 on 10 ns of that are left."""
    t = ck.TraceBuilder()
    t.recv("recv_forward", 1, 0, 8)
    times = Times(np.array([0], np.int64), np.array([100], np.int64))
    view = rank_view(run_of(ck.TraceSet([t.build()]), {0: times}, tick_ps=1000), 0)
    waits = [Intervals.one(0, 0), Intervals.one(0, 60)]
    calls = call_tree(view, 0, 100, waits=waits)
    assert [(c.name, c.time_ns, c.kind) for c in calls] == [
        ("all", 100, "bubble"),
        ("bubble", 60, "bubble"),
        ("recv_forward", 40, "communication"),
    ]
    assert [c.time_ns for c in call_tree(view, 50, 100, waits=waits)] == [50, 40, 10]
