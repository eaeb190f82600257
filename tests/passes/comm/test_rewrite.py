"""One body being changed: edges, ids and callers follow the rows that came or went."""

from __future__ import annotations

import pytest

from chakrakit import Binding, CollectiveType, EdgeKind, TraceBuilder, TraceSet
from chakrakit.errors import TraceError
from chakrakit.passes.comm import Comm
from chakrakit.passes.comm.rewrite import Rewrite
from support.comm_cases import alike, edges_of, gradients

AR, RS, AG = CollectiveType.ALL_REDUCE, CollectiveType.REDUCE_SCATTER, CollectiveType.ALL_GATHER


def test_start_and_finish_edges_go_to_the_right_end():
    """A caller's start, a sync on the end: around a call cut in two, first and last piece."""
    t = TraceBuilder()
    launch = t.comp("launch", duration_ns=100, is_cpu_op=True)
    call = t.collective("sync", AR, 1000)
    wait = t.comp("wait", duration_ns=10, is_cpu_op=True)
    inner = t.comp("inner", duration_ns=10, is_cpu_op=True)
    t.edge(launch, call, EdgeKind.LAUNCH, lag_ns=7)
    t.edge(call, wait, EdgeKind.SYNC)
    t.edge(call, inner, EdgeKind.CALL, lag_ns=3)
    out = (alike(t) | Comm("split", parts=2)).body(0)
    assert edges_of(out, EdgeKind.LAUNCH) == {("launch", "sync [1/2]")}
    assert edges_of(out, EdgeKind.SYNC) == {("sync [2/2]", "wait")}
    assert edges_of(out, EdgeKind.CALL) == {("sync [1/2]", "inner")}
    assert sorted(out.edges.lag.tolist()) == [0, 0, 3, 7]


def test_ids_stay_where_nothing_is_added_and_in_order_where_it_is():
    t = gradients([400, 2500])
    body = t.build().with_columns({"id": [10, 11, 20, 21, 30]})
    body = body.with_edges(t.build().edges)
    out = (TraceSet([body], {r: Binding(0) for r in range(2)}) | Comm("split", size=1000)).body(0)
    assert out.ids.tolist() == [10, 11, 20, 21, 22, 23, 32]


def test_callers_are_still_the_same_nodes():
    t = TraceBuilder()
    t.collective("sync", AR, 4000)
    around = t.comp("around", duration_ns=10)
    body = t.build().with_columns({"parent": [around, None]})
    out = (TraceSet([body], {r: Binding(0) for r in range(2)}) | Comm("split", parts=3)).body(0)
    assert out.parent.tolist() == [3, 3, 3, -1]


def test_work_beside_a_communication_takes_over_its_place():
    t = TraceBuilder()
    t.collective("sync", AR, 1000, stream=3, phase="backward")
    rewrite = Rewrite(t.build())
    encode = rewrite.work(0, -1, name="encode", duration_micros=5)
    rewrite.first[0] = encode
    rewrite.edge(encode, 0, EdgeKind.DATA)
    out = rewrite.build()
    assert out.names.to_pylist() == ["encode", "sync"]
    assert (out.types.tolist(), out.ids.tolist()) == ([4, 7], [0, 1])
    assert out.column("stream").tolist() == [3, 3]
    assert out.table.column("phase").to_pylist() == ["backward", "backward"]
    assert out.column("comm_size", -1).tolist() == [-1, 1000]
    assert edges_of(out) == {("encode", "sync")}


def test_of_equal_edges_that_a_change_makes_the_longest_lag_stays():
    t = TraceBuilder()
    a, b, c = t.comp("a"), t.comp("b"), t.comp("c")
    t.edge(a, c, EdgeKind.DATA, lag_ns=3)
    t.edge(b, c, EdgeKind.DATA, lag_ns=9)
    rewrite = Rewrite(t.build())
    rewrite.absorb(a, b)
    out = rewrite.build()
    assert out.names.to_pylist() == ["b", "c"]
    assert (out.edges.src.tolist(), out.edges.lag.tolist()) == ([0], [9])


def test_ids_without_room_for_one_more_are_refused():
    t = TraceBuilder()
    t.collective("sync", AR, 1000)
    rewrite = Rewrite(t.build().with_columns({"id": [2**64 - 1]}))
    rewrite.copy(0, 1)
    with pytest.raises(TraceError, match="ids are too near the largest there is"):
        rewrite.build()
