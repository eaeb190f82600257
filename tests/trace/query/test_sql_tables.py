"""The tables of a query: names no other column has, codes as words, and one type per column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from chakrakit import Binding, EdgeKind, Edges, Groups, Times, Trace, TraceSet
from chakrakit.errors import ChakraError
from chakrakit.trace.query import sql_tables
from chakrakit.trace.sets import run_of


def one(**columns: list) -> Trace:
    return Trace.from_columns({"name": ["a", "b"], **columns})


def test_a_row_of_ranks_says_which_body_under_which_groups_peers_and_scale() -> None:
    traces = TraceSet(
        [one()], {0: Binding(0), 3: Binding(0, {"tp": "5"}, {0: 1}, 2.5)}, Groups({"5": [0, 3]})
    )
    assert sql_tables.ranks(traces).to_pylist()[1] == {
        "rank": 3,
        "body": 0,
        "scale": 2.5,
        "groups": [("tp", "5")],
        "peers": [(0, 1)],
        "timing": None,
    }


def test_an_attribute_that_sql_would_mistake_for_another_column_gets_a_number() -> None:
    table = sql_tables.body_nodes(one(Row=[1, 2], rank=[3, 4], rank_2=[5, 6], duration_ns=[7, 8]))
    assert table.column("Row_2").to_pylist() == [1, 2]
    assert table.column("rank_2").to_pylist() == [3, 4]
    assert table.column("rank_2_2").to_pylist() == [5, 6]
    assert table.column("duration_ns").to_pylist() == [7, 8]


def test_codes_are_words_and_a_row_without_a_collective_has_none() -> None:
    table = sql_tables.body_nodes(one(type=[4, 7], comm_type=[None, 0]))
    assert table.column("type").to_pylist() == ["COMP_NODE", "COMM_COLL_NODE"]
    assert table.column("collective").to_pylist() == [None, "ALL_REDUCE"]


def test_edges_are_between_ids() -> None:
    trace = one(id=[8, 5]).with_edges(Edges.of([0], [1], EdgeKind.SYNC, lag=4))
    assert sql_tables.body_edges(trace).to_pylist() == [
        {"src": 8, "dst": 5, "kind": "sync", "form": "finish_finish", "lag_ns": 4, "ctrl": False}
    ]


def test_a_column_of_two_types_becomes_text() -> None:
    table = sql_tables.nodes(TraceSet([one(foo=[1, None]), one(foo=["x", "y"])]))
    assert table.column("foo").to_pylist() == ["1", None, "x", "y"]
    assert table.column("body").to_pylist() == [0, 0, 1, 1]


def test_times_are_whole_nanoseconds_of_every_timing_class() -> None:
    times = Times(np.array([0, 2_500]), np.array([1_999, 4_000]))
    run = run_of(TraceSet([one()]), {0: times}, tick_ps=1)
    assert sql_tables.times(run).to_pylist() == [
        {"timing": 0, "row": 0, "start_ns": 0, "end_ns": 1},
        {"timing": 0, "row": 1, "start_ns": 2, "end_ns": 4},
    ]


def test_times_that_do_not_fit_their_body_are_refused() -> None:
    with pytest.raises(ChakraError, match="times"):
        sql_tables.times(run_of(TraceSet([one()]), {0: Times(np.array([0]), np.array([1]))}))


def test_groups_have_one_row_per_member_and_names_are_quoted() -> None:
    traces = TraceSet([one()], groups=Groups({"tp": [0, 2]}))
    assert sql_tables.plain(traces, "groups") == pa.table({"group": ["tp", "tp"], "rank": [0, 2]})
    assert sql_tables.quoted('a "b"') == '"a ""b"""'
