"""Which host row runs inside which: as nodes say, from times on a thread, or from calls."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit import EdgeKind, TraceBuilder
from chakrakit.errors import TraceError
from chakrakit.trace.model import SLACK_NS, Trace, depth_of, nearest_kept, nested


def timed(*rows: tuple[str, int | None, int, int]) -> Trace:
    """(name, thread, start, end) in µs; a row without a thread runs on a device."""
    t = TraceBuilder()
    for name, thread, start, end in rows:
        where = {"stream": 7} if thread is None else {"is_cpu_op": True, "tid": thread}
        t.comp(name, start_ns=1000 * start, duration_ns=1000 * (end - start), **where)
    return t.build()


def told(*parents: int | None) -> Trace:
    """Host rows without times, each inside the node that is named."""
    t = TraceBuilder()
    for parent in parents:
        said = {} if parent is None else {"parent": parent}
        t.comp("n", is_cpu_op=True, tid=1, **said)
    return t.build()


def test_the_parent_is_the_innermost_row_around_on_the_same_thread() -> None:
    """
    thread 1   |outer 0–10 µs                |after 12–13|
                 |inner 1–9|
                   |innermost 2–3|
    thread 2     |other 1–9|
    """
    trace = timed(
        ("outer", 1, 0, 10),
        ("inner", 1, 1, 9),
        ("innermost", 1, 2, 3),
        ("other", 2, 1, 9),
        ("after", 1, 12, 13),
        ("a kernel", None, 2, 3),
    )
    assert trace.parent.tolist() == [-1, 0, 1, -1, -1, -1]


def test_rows_need_not_be_in_the_order_of_their_starts() -> None:
    assert timed(("inner", 1, 2, 3), ("outer", 1, 0, 10)).parent.tolist() == [1, -1]


def test_what_began_inside_and_ran_on_by_itself_was_still_called_from_there() -> None:
    assert timed(("outer", 1, 0, 100), ("inner", 1, 50, 900)).parent.tolist() == [-1, 0]


def test_a_row_that_outlives_its_parent_holds_nothing_that_runs_meanwhile() -> None:
    """`b` begins inside `a`; `c` runs inside both. Only where `b` ends soon after `a` has it called `c`."""
    thread, start = np.zeros(3, np.int64), np.array([0, 5, 6])
    for late, parent_of_c in ((SLACK_NS, 1), (SLACK_NS + 1, 0)):
        parent, outlives = nested(thread, start, np.array([100, 100 + late, 7]))
        assert parent.tolist() == [-1, 0, parent_of_c]
        assert outlives.tolist() == [False, late > SLACK_NS, False]


def test_threads_do_not_nest_in_each_other() -> None:
    start, end = np.array([0, 1]), np.array([10, 2])
    assert nested(np.array([3, 4]), start, end)[0].tolist() == [-1, -1]
    assert nested(np.zeros(0, np.int64), start[:0], end[:0])[0].tolist() == []


def test_what_nodes_say_counts_whatever_their_times_are() -> None:
    """By its times the second row runs inside the first, by its `parent` inside the third."""
    trace = timed(("a", 1, 0, 10), ("b", 1, 2, 3), ("c", 1, 20, 30))
    assert trace.parent.tolist() == [-1, 0, -1]
    assert trace.with_columns({"parent": [None, 2, None]}).parent.tolist() == [-1, 2, -1]


def test_earlier_versions_called_it_caller() -> None:
    trace = told(None, None).with_columns({"caller": [None, 0]})
    assert trace.parent.tolist() == [-1, 0]
    moved = trace.with_parent(np.array([1, -1], np.int32))
    assert moved.parent.tolist() == [1, -1]
    assert "caller" not in moved.nodes.column_names


def test_parents_are_named_by_id_and_one_that_is_not_there_is_none() -> None:
    trace = told(None, 7, 99).with_columns({"id": np.array([7, 8, 9], np.uint64)})
    assert trace.parent.tolist() == [-1, 0, -1]


def test_without_times_calls_tell() -> None:
    t = TraceBuilder()
    outer, inner = (t.comp(n, is_cpu_op=True, tid=1) for n in ("outer", "inner"))
    t.edge(outer, inner, EdgeKind.CALL)
    t.edge(inner, t.comp("kernel", stream=7), EdgeKind.CALL)
    assert t.build().parent.tolist() == [-1, 0, -1]


@pytest.mark.parametrize("parents", [(0,), (1, 0), (2, 0, 1)])
def test_rows_inside_each_other_in_a_circle_are_refused(parents: tuple[int, ...]) -> None:
    with pytest.raises(TraceError, match=r"node 0 runs inside itself.*remove that attribute"):
        _ = told(*parents).parent


def test_a_row_whose_parent_is_left_out_runs_inside_the_nearest_that_stays() -> None:
    """0 ⊃ 1 ⊃ 2 ⊃ 3, and 4 beside them."""
    trace = told(None, 0, 1, 2, None)
    assert trace.select([0, 3, 4]).parent.tolist() == [-1, 0, -1]
    assert trace.select([3, 0]).parent.tolist() == [1, -1]
    assert trace.select([2, 3]).parent.tolist() == [-1, 0]
    assert not trace.select([3, 4]).has("parent").any()


def test_however_deep_rows_are_nested() -> None:
    parent = np.arange(-1, 99_999, dtype=np.int32)
    assert depth_of(parent).tolist() == list(range(100_000))
    kept = np.zeros(100_000, np.bool_)
    kept[[0, 99_999]] = True
    assert nearest_kept(parent, kept)[99_999] == 0


def test_whoever_changes_times_writes_down_what_they_told() -> None:
    trace = timed(("outer", 1, 0, 10), ("inner", 1, 2, 3)).with_nesting()
    later = trace.with_columns({"start_time_micros": [0, 50]})
    assert later.parent.tolist() == [-1, 0]
    assert trace.with_nesting() is trace
