"""From any trace to a plan of waits and communication."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.replayer.plan.options import ReplayOptions
from chakrakit.replayer.run.session import prepare


def test_times_are_needed_to_emulate_and_not_to_communicate():
    t = ck.TraceBuilder()
    t.collective("sum", ck.CollectiveType.ALL_GATHER, 100, deps=[t.comp("work")])
    traces = ck.TraceSet([t.build()] * 2, groups=ck.Groups({"0": [0, 1]}))
    with pytest.raises(ck.errors.TraceError, match="simulate the trace first"):
        prepare(traces, ReplayOptions(mode="emulate"))
    plan = prepare(traces, ReplayOptions(mode="comm")).plans[1]
    assert [(e.op, e.input, e.output) for e in plan.communication.values()] == [
        ("all_gather_flat", 100, 200)
    ]


def test_order_of_communication_in_a_trace_that_never_ran():
    """Written first, but it depends on the second: the second is issued first."""
    t = ck.TraceBuilder()
    first = t.collective("late", ck.CollectiveType.ALL_REDUCE, 64)
    second = t.collective("early", ck.CollectiveType.ALL_REDUCE, 64)
    t.edge(second, first)
    t.edge(second, first, ck.EdgeKind.CTRL)
    plan = prepare(ck.TraceSet([t.build()]), ReplayOptions(mode="comm")).plans[0]
    assert plan.order == [second, first]
