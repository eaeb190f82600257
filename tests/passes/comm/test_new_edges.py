"""New work is ordered as the body orders its own: by edges of its kinds, or plainly."""

from __future__ import annotations

from chakrakit import EdgeKind, TraceBuilder
from chakrakit.passes.comm.rewrite import data_kind, order_kind


def pair(*kinds: EdgeKind):
    t = TraceBuilder()
    t.comp("a", stream=1)
    t.comp("b", stream=1)
    for kind in kinds:
        t.edge(0, 1, kind)
    return t.build()


def test_a_body_whose_streams_are_edges_gets_more_of_them():
    assert order_kind(pair(EdgeKind.STREAM), host=False) == EdgeKind.STREAM
    assert order_kind(pair(EdgeKind.THREAD), host=True) == EdgeKind.THREAD


def test_else_an_order_is_a_control_dependency():
    assert order_kind(pair(EdgeKind.DATA), host=False) == EdgeKind.CTRL
    assert order_kind(pair(), host=True) == EdgeKind.CTRL


def test_what_is_read_has_the_kind_that_the_body_uses():
    assert data_kind(pair(EdgeKind.DATA)) == EdgeKind.DATA  # it says no kinds
    assert data_kind(pair(EdgeKind.EVENT)) == EdgeKind.TENSOR
