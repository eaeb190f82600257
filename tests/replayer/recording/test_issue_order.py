"""The order of communication in traces that never ran."""

from __future__ import annotations

import chakrakit as ck
from chakrakit.replayer.plan.options import ReplayOptions
from chakrakit.replayer.run.session import prepare


def test_communication_of_a_pipeline_that_never_ran_is_issued_in_an_order_that_can_be():
    """Rank 0's backward all-reduce depends only on a receive, which depends on all of its forward."""
    first, last = ck.TraceBuilder(), ck.TraceBuilder()
    back = first.recv("grad", 1, 0, 64)
    late = first.collective("backward", ck.CollectiveType.ALL_REDUCE, 64, deps=[back])
    early = first.collective("forward", ck.CollectiveType.ALL_REDUCE, 64, deps=[first.comp("x")])
    first.send("act", 0, 1, 64, deps=[early])
    got = last.recv("act", 0, 1, 64)
    last.send("grad", 1, 0, 64, deps=[last.comp("y", deps=[got])])
    groups = ck.Groups({"0": [0, 1], "mine": [0]})
    traces = ck.TraceSet([first.build(), last.build()], groups=groups)
    order = prepare(traces, ReplayOptions(mode="comm")).plans[0].order
    assert order.index(early) < order.index(late)
