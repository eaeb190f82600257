"""Calls: chosen host nodes with all that runs inside them."""

import numpy as np
import pytest

from chakrakit import TraceBuilder
from chakrakit.passes.edit import SelectedCalls
from chakrakit.trace.model import EdgeKind


@pytest.fixture
def trace():
    """
    host    |0 linear 0–100        |   |3 add 200–250|
              |1 mm 10–90|
    device        2 gemm 50–150            4 add 210–260
    """
    t = TraceBuilder()
    host = {"is_cpu_op": True, "tid": 1}
    t.comp("linear", start_time_ns=0, duration_ns=100, **host)
    mm = t.comp("mm", start_time_ns=10, duration_ns=80, **host)
    gemm = t.comp("gemm", start_time_ns=50, duration_ns=100, stream=7)
    add = t.comp("add", start_time_ns=200, duration_ns=50, **host)
    kernel = t.comp("add_kernel", start_time_ns=210, duration_ns=50, stream=7)
    t.edge(mm, gemm, EdgeKind.LAUNCH)
    t.edge(add, kernel, EdgeKind.LAUNCH)
    return t.build()


def chosen(*rows):
    return np.isin(np.arange(5), rows)


def test_the_outermost_chosen_node_is_the_call(trace):
    assert SelectedCalls(trace, chosen(0, 1)).call.tolist() == [0, 0, 0, -1, -1]
    assert SelectedCalls(trace, chosen(1)).call.tolist() == [-1, 1, 1, -1, -1]


def test_a_chosen_kernel_outside_all_calls_is_one_by_itself(trace):
    assert SelectedCalls(trace, chosen(1, 4)).call.tolist() == [-1, 1, 1, -1, 4]


def test_of_each_call_the_row_that_begins_last(trace):
    calls = SelectedCalls(trace, chosen(0, 3))
    assert calls.last(np.ones(5, np.bool_)).tolist() == [2, 4]
    assert calls.last(calls.host).tolist() == [1, 3]


def test_nothing_chosen_is_no_call(trace):
    calls = SelectedCalls(trace, chosen())
    assert calls.call.tolist() == [-1] * 5
    assert calls.last(np.ones(5, np.bool_)).tolist() == []
