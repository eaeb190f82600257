"""The order of communication in traces that never ran."""

from __future__ import annotations

import pytest

import chakrakit as ck
from chakrakit.errors import TraceError
from chakrakit.replayer import ReplayOptions
from chakrakit.replayer.recording import issue_levels
from chakrakit.replayer.session import prepare


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


def test_levels_count_over_messages_between_ranks():
    """The receive on rank 1 comes after what its sender does first."""
    first, last = ck.TraceBuilder(), ck.TraceBuilder()
    first.send("act", 0, 1, 64, deps=[first.comp("a", deps=[first.comp("b")])])
    last.comp("after", deps=[last.recv("act", 0, 1, 64)])
    levels = issue_levels({0: first.build(), 1: last.build()})
    assert levels[0].max() == 2
    assert levels[1].tolist() == [3, 4]


def test_ranks_that_wait_for_each_other_can_be_issued_in_no_order():
    ranks = {}
    for rank in (0, 1):
        t = ck.TraceBuilder()
        got = t.recv("in", 1 - rank, rank, 64)
        t.send("out", rank, 1 - rank, 64, deps=[got])
        ranks[rank] = t.build()
    with pytest.raises(TraceError, match="wait for each other's messages in a circle of 4 nodes"):
        issue_levels(ranks)
