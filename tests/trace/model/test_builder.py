"""Traces written by hand."""

from __future__ import annotations

import doctest

import pytest

from chakrakit import CollectiveType, EdgeForm, EdgeKind, NodeType, TraceBuilder
from chakrakit.errors import TraceError
from chakrakit.trace.model import builder


def test_the_example_in_the_docstring_runs() -> None:
    names = {"TraceBuilder": TraceBuilder, "CollectiveType": CollectiveType}
    assert doctest.testmod(builder, extraglobs=names).failed == 0


def test_a_small_pipeline() -> None:
    t = TraceBuilder()
    load = t.node("load", NodeType.MEM_LOAD_NODE, tensor_size=4096)
    gemm = t.comp("gemm", duration_ns=2_500, deps=[load], num_ops=1_000)
    send = t.send("send", 0, 1, 128, tag=7, deps=[gemm], ctrl_deps=[load])
    recv = t.recv("recv", 1, 0, 128, tag=8)
    t.edge(send, recv, EdgeKind.SYNC, lag_ns=3)
    trace = t.build()
    assert [n["type"] for n in trace.nodes.to_pylist()] == [2, 4, 5, 6]
    assert trace.duration_ns.tolist() == [0, 2500, 0, 0]
    assert trace.column("duration_micros").tolist() == [0, 2, 0, 0]
    assert trace[2].attributes == {
        "is_cpu_op": False,
        "comm_src": 0,
        "comm_dst": 1,
        "comm_size": 128,
        "comm_tag": 7,
    }
    assert trace.edges.kind.tolist() == [0, 0, 1, 7]
    assert trace.edges.form.tolist()[-1] == EdgeForm.FINISH_FINISH
    assert trace.edges.lag.tolist() == [0, 0, 0, 3]


def test_an_empty_builder_builds_an_empty_trace() -> None:
    assert len(TraceBuilder().build()) == 0


def test_what_cannot_be_built_is_refused_at_once() -> None:
    t = TraceBuilder()
    with pytest.raises(TraceError, match="node 5 is not in this builder"):
        t.comp("a", deps=[5])
    with pytest.raises(TraceError, match="not negative"):
        t.comp("a", duration_ns=-1)
    with pytest.raises(TraceError, match="'id' is set by the builder"):
        t.comp("a", id=3)
