"""What waits for what within a body: edges by their form, lanes where no edge says it, turns marked."""

from __future__ import annotations

import numpy as np

from chakrakit import CollectiveType, EdgeKind, TraceBuilder
from chakrakit.passes.comm.rewrite import highest_before, is_comm, turn_edges, waits

AR = CollectiveType.ALL_REDUCE


def test_forms_say_which_events_an_edge_joins():
    t = TraceBuilder()
    for name in "abcd":
        t.comp(name)
    t.edge(0, 1, EdgeKind.DATA)
    t.edge(1, 2, EdgeKind.LAUNCH)
    t.edge(2, 3, EdgeKind.SYNC)
    src, dst, turn = waits(t.build())
    pairs = sorted(zip(src.tolist(), dst.tolist(), strict=True))
    assert pairs == [(1, 2), (2, 4), (5, 7)]  # end → start, start → start, end → end
    assert not turn.any()


def test_a_turn_is_an_order_between_two_communications_and_nothing_more():
    t = TraceBuilder()
    work = t.comp("work")
    first = t.collective("first", AR, 8, deps=[work])
    second = t.collective("second", AR, 8, ctrl_deps=[first])
    t.collective("reads", AR, 8, deps=[second])
    body = t.build()
    assert is_comm(body).tolist() == [False, True, True, True]
    edges = body.edges
    turns = turn_edges(body)
    assert list(zip(edges.src[turns].tolist(), edges.dst[turns].tolist(), strict=True)) == [(1, 2)]


def test_a_stream_without_edges_is_an_order_of_its_own():
    t = TraceBuilder()
    t.collective("first", AR, 8, stream=1)
    t.collective("second", AR, 8, stream=1)
    src, dst, turn = waits(t.build())
    assert (src.tolist(), dst.tolist(), turn.tolist()) == ([1], [2], [True])


def test_the_highest_mark_on_any_way_counts():
    """0 →(5) 1 → 3 and 0 →(2) 2 → 3; nothing leads to 0."""
    src, dst = np.array([0, 1, 0, 2]), np.array([1, 3, 2, 3])
    marks = np.array([5, 0, 2, 0])
    assert highest_before(4, src, dst, marks).tolist() == [0, 5, 2, 5]
