"""From any trace to a plan of waits and communication."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.replayer import ReplayOptions
from chakrakit.replayer.session import prepare


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


@pytest.mark.parametrize(
    ("ranks", "shrink", "size"), [(2, "keep", 200), (2, "scale", 400), (4, "keep", 400)]
)
def test_emulated_communication_shrinks_by_the_same_rule(ranks, shrink, size):
    t = ck.TraceBuilder()
    t.collective("x", ck.CollectiveType.ALL_GATHER, 100)
    t.collective("y", ck.CollectiveType.REDUCE_SCATTER, 400)
    t.collective("z", ck.CollectiveType.ALL_TO_ALL, 400)
    traces = ck.TraceSet([t.build()] * 4, groups=ck.Groups({"0": range(4)}))
    found = (
        prepare(traces, ReplayOptions(mode="comm", nproc=ranks, shrink=shrink))
        .plans[0]
        .communication
    )
    assert found[0].output == size
    assert found[1].input == size
    assert sum(found[2].in_splits) == found[2].output == size
