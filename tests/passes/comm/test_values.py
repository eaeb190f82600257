"""A column with some values changed, made where it is not there."""

from chakrakit import TraceBuilder
from chakrakit.passes.comm.rewrite import edited


def trace():
    t = TraceBuilder()
    t.comp("a", stream=7, module="x")
    t.comp("b", stream=9)
    return t.build()


def test_numbers_change_come_and_go():
    assert edited(trace(), "stream", [(0, 20), (1, None)]).to_pylist() == [20, None]


def test_texts_do_too():
    assert edited(trace(), "module", [(1, "y")]).to_pylist() == ["x", "y"]


def test_a_new_column_has_the_vocabularys_type():
    made = edited(trace(), "comm_size", [(1, 2**40)])
    assert made.to_pylist() == [None, 2**40]
    assert str(made.type) == "int64"
