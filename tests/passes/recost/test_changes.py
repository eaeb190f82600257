"""By how much each class of work changed."""

from chakrakit import Binding, CollectiveType, TraceBuilder, TraceSet
from chakrakit.passes.edit import by_class


def traces(gemm, norm):
    t = TraceBuilder()
    t.comp("a.qkv", op_type="matmul", duration_ns=gemm)
    t.comp("a.norm", op_type="vector", duration_ns=norm)
    t.collective("sum", CollectiveType.ALL_REDUCE, 8, duration_ns=999)
    return TraceSet([t.build()], {0: Binding(0), 1: Binding(0)})


def test_one_row_per_class_over_all_ranks_largest_first():
    assert by_class(traces(100, 10), traces(50, 10)) == [
        {"class": "gemm", "nodes": 2, "before_ns": 200, "after_ns": 100, "ratio": 0.5},
        {"class": "elementwise", "nodes": 2, "before_ns": 20, "after_ns": 20, "ratio": 1.0},
    ]


def test_what_took_no_time_has_no_ratio():
    assert by_class(traces(0, 10), traces(5, 10))[1]["ratio"] is None
