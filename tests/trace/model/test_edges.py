"""Edges are parallel arrays of exact types: what is left out is what the kind usually has."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.errors import TraceError
from chakrakit.trace.model import EdgeForm, EdgeKind, Edges, check_range, column


@pytest.mark.parametrize(
    ("kind", "form", "ctrl"),
    [
        (EdgeKind.DATA, EdgeForm.FINISH_START, False),
        (EdgeKind.CTRL, EdgeForm.FINISH_START, True),
        (EdgeKind.LAUNCH, EdgeForm.START_START, False),
        (EdgeKind.THREAD, EdgeForm.FINISH_START, True),
        (EdgeKind.SYNC, EdgeForm.FINISH_FINISH, False),
        (EdgeKind.CALL, EdgeForm.START_START, True),
    ],
)
def test_a_kind_has_a_usual_form_and_list(kind: EdgeKind, form: EdgeForm, ctrl: bool) -> None:
    edges = Edges.of([0, 1], [1, 2], kind)
    assert edges.form.tolist() == [form, form]
    assert edges.ctrl.tolist() == [ctrl, ctrl]
    assert edges.lag.tolist() == [0, 0]


def test_one_value_counts_for_all_edges_and_what_is_said_goes_before_the_usual() -> None:
    edges = Edges.of(
        [0, 1], [2, 2], [EdgeKind.SYNC, EdgeKind.DATA], form=EdgeForm.START_START, lag=-3, ctrl=True
    )
    assert (edges.form.tolist(), edges.lag.tolist(), edges.ctrl.tolist()) == (
        [1, 1],
        [-3, -3],
        [True, True],
    )


def test_edges_are_joined_picked_and_left_out_in_order() -> None:
    first = Edges.of([0, 1], [1, 2], [EdgeKind.DATA, EdgeKind.EVENT])
    both = Edges.concat([first, Edges.of([4], [5], EdgeKind.SYNC, lag=7)])
    assert (both.src.tolist(), both.lag.tolist()) == ([0, 1, 4], [0, 0, 7])
    assert both.where([True, False, True]).dst.tolist() == [1, 5]
    assert both.without(EdgeKind.EVENT).src.tolist() == [0, 4]
    assert both.without([EdgeKind.DATA, EdgeKind.SYNC]).src.tolist() == [1]
    assert len(Edges.concat([])) == len(Edges.empty()) == 0


@pytest.mark.parametrize(
    ("src", "dst", "kind", "problem"),
    [
        ([0], [1, 2], 0, r"Edges.dst has 2 entries and Edges.src 1; Edges.of\(...\) converts"),
        ([0], [1], 11, r"kind\[0\] is 11, not in 0..10; see EdgeKind"),
        ([0], [-1], 0, r"Edges.dst\[0\] is -1, not in .*; rows count from 0"),
        ([0.5], [1], 0, r"src holds float64; convert it with .astype\(numpy.int32\)"),
        ([0], [2**31], 0, r"dst\[0\] is 2147483648, which does not fit int32"),
    ],
)
def test_edges_that_cannot_be_are_refused(src: list, dst: list, kind: int, problem: str) -> None:
    with pytest.raises(TraceError, match=problem):
        Edges.of(src, dst, kind)


def test_arrays_of_another_type_are_refused_where_nothing_converts() -> None:
    good = Edges.of([0], [1])
    with pytest.raises(TraceError, match=r"Edges\.src must be an array of int32, got int64"):
        Edges(np.array([0], np.int64), good.dst, good.kind, good.form, good.lag, good.ctrl)
    with pytest.raises(TraceError, match="mask has 2 entries for 1 edges"):
        good.where([True, False])


def test_a_column_is_neither_rounded_nor_wrapped() -> None:
    assert column([1, 127], np.int8, "codes").tolist() == [1, 127]
    assert column([], np.int8, "codes").dtype == np.int8
    with pytest.raises(TraceError, match=r"codes\[1\] is 128, which does not fit int8"):
        column([1, 128], np.int8, "codes")
    with pytest.raises(TraceError, match="flags holds int64"):
        column([0, 1], np.bool_, "flags")
    with pytest.raises(TraceError, match="codes has 0 dimensions; give a one-dimensional array"):
        column(3, np.int8, "codes")


def test_a_range_names_the_first_value_outside_it_and_the_cure() -> None:
    check_range(np.array([2, 4]), 2, 5, "rows", "count again")
    check_range(np.array([], np.int64), 2, 5, "rows", "count again")
    with pytest.raises(TraceError, match=r"rows\[1\] is 5, not in 2..4; count again"):
        check_range(np.array([2, 5, 9]), 2, 5, "rows", "count again")
