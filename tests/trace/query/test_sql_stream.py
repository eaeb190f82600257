"""Tables made rank by rank: only what was asked for, and one type per column over all ranks."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from chakrakit import Binding, Trace, TraceSet
from chakrakit.trace.query.sql_stream import StreamedTable, can_stream
from chakrakit.trace.query.sql_tables import body_nodes


def one(name: str, **columns: list) -> Trace:
    return Trace.from_columns({"name": [name, "last"], **columns})


def mixed() -> TraceSet:
    return TraceSet([one("a", foo=[1, 2]), one("b", foo=["x", None], bar=[[1], [2, 3]])])


def rows(table: StreamedTable, columns: list[str], chosen: pc.Expression | None = None) -> list:
    return table.scanner(columns, chosen).to_reader().read_all().to_pylist()


def test_a_column_of_two_types_is_text_and_one_that_a_rank_lacks_is_null() -> None:
    table = StreamedTable(mixed(), body_nodes, None)
    assert table.schema.field("foo").type == pa.string()
    assert rows(table, ["rank", "foo", "bar"]) == [
        {"rank": 0, "foo": "1", "bar": None},
        {"rank": 0, "foo": "2", "bar": None},
        {"rank": 1, "foo": "x", "bar": [1]},
        {"rank": 1, "foo": None, "bar": [2, 3]},
    ]


def test_a_filter_may_look_at_columns_that_are_not_asked_for() -> None:
    table = StreamedTable(mixed(), body_nodes, None)
    assert rows(table, ["rank"], pc.field("name") == "b") == [{"rank": 1}]


def test_names_are_text_although_each_rank_has_its_own_dictionary() -> None:
    table = StreamedTable(mixed(), body_nodes, None)
    assert table.schema.field("name").type == pa.string()
    assert [r["name"] for r in rows(table, ["name"])] == ["a", "last", "b", "last"]


def test_only_ranks_with_plain_bodies_of_their_own_are_streamed() -> None:
    body = one("a")
    assert can_stream(TraceSet([body, body]))
    assert not can_stream(TraceSet([body]))  # one rank: nothing to gain
    assert not can_stream(TraceSet([body], {0: Binding(0), 1: Binding(0)}))
    assert not can_stream(TraceSet([body, body], {0: Binding(0), 1: Binding(1, scale=2.0)}))
