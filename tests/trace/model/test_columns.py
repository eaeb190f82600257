"""Columns between the core and Arrow: names, storage types, and the members that hold their values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from chakrakit import Member, Trace
from chakrakit.errors import TraceError
from chakrakit.trace.model import columns


@pytest.mark.parametrize(
    ("attribute", "column"),
    [("stream", "stream"), ("id", "attr:id"), ("_x", "attr:_x"), ("attr:y", "attr:attr:y")],
)
def test_an_attribute_and_its_column_name_each_other(attribute: str, column: str) -> None:
    assert columns.column_name(attribute) == column
    assert columns.attribute_name(column) == attribute


def test_fields_and_private_columns_are_no_attributes() -> None:
    assert [columns.attribute_name(name) for name in ("id", "data_deps", "_raw")] == [None] * 3
    assert [columns.is_known(n) for n in ("id", "comm_size", "foo")] == [True, True, False]


@pytest.mark.parametrize(
    ("member", "kind"),
    [
        (Member.float_val, pa.float64()),
        (Member.uint32_val, pa.int64()),
        (Member.bool_val, pa.bool_()),
        (Member.string_val, pa.string()),
        (Member.bytes_list, pa.list_(pa.binary())),
        (Member.sint64_list, pa.list_(pa.int64())),
    ],
)
def test_a_member_is_stored_as_one_of_ten_types(member: Member, kind: pa.DataType) -> None:
    assert columns.STORAGE_TYPES[columns.storage_of_member(member)] == kind
    assert columns.stores(kind, member)


def test_integers_and_booleans_go_into_each_others_columns() -> None:
    assert columns.stores(pa.int64(), Member.bool_val)
    assert columns.stores(pa.bool_(), Member.uint32_val)
    assert not columns.stores(pa.string(), Member.int64_val)


def test_the_vocabulary_names_the_member_to_write_and_else_the_type_does() -> None:
    assert columns.member_for("comm_tag", pa.int64()) == Member.int32_val
    assert columns.member_for("foo", pa.int16()) == Member.int64_val
    assert columns.member_for("foo", pa.list_(pa.float32())) == Member.double_list
    assert columns.member_for("foo", pa.dictionary(pa.int32(), pa.string())) == Member.string_val


def test_members_hold_the_values_that_they_do_not_change() -> None:
    small = columns.members_that_hold(pa.array([0, 1]))
    assert {Member.bool_val, Member.int32_val, Member.uint64_val} <= small
    negative = columns.members_that_hold(pa.array([-1, 2**31]))
    assert Member.sint64_val in negative
    assert not {Member.int32_val, Member.uint64_val, Member.bool_val} & negative
    assert Member.float_val in columns.members_that_hold(pa.array([0.5, None]))
    assert columns.members_that_hold(pa.array([0.1])) == {Member.double_val}
    assert columns.members_that_hold(pa.array([1e300])) == {Member.double_val}


def test_a_slice_of_lists_goes_to_the_encoder_with_offsets_that_begin_at_zero() -> None:
    whole = Trace.from_columns({"name": list("abc"), "dims": [[1, 2], [3], [4, 5]]})
    given = columns.encoder_input(whole.table.slice(1), whole.layouts)
    name, storage, offsets, values = given["columns"][0]
    assert (name, columns.STORAGE_TYPES[storage]) == ("dims", pa.list_(pa.int64()))
    assert (offsets.tolist(), values.tolist()) == ([0, 1, 3], [3, 4, 5])
    assert (given["rows"], given["id"].tolist()) == (2, [1, 2])


def test_a_decoded_list_shares_its_buffers() -> None:
    values = np.array([7, 8, 9], np.int64)
    offsets = np.array([0, 2, 2, 3], np.int32)
    column = columns.arrow_array(5, 3, 0, None, [offsets, values])
    assert column.to_pylist() == [[7, 8], [], [9]]
    assert column.values.buffers()[1].address == values.ctypes.data


def test_names_of_over_two_gigabytes_are_refused() -> None:
    assert columns.names_array(np.array([0, 1, 3]), b"abc").to_pylist() == ["a", "bc"]
    with pytest.raises(TraceError, match="exceed 2 GiB; read it in pieces"):
        columns.names_array(np.array([0, 2**31]), b"")


def test_columns_have_the_schemas_types_and_defaults() -> None:
    trace = Trace.from_columns({"name": ["a", "b"]})
    assert trace.ids.tolist() == [0, 1]
    assert trace.nodes.schema.field("id").type == pa.uint64()
    assert trace.nodes.to_pylist()[1] == {
        "id": 1,
        "name": "b",
        "type": 0,
        "start_time_micros": 0,
        "duration_micros": 0,
        "ctrl_deps": [],
        "data_deps": [],
    }


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"name": ["a"], "type": [4, 4]}, "columns differ in length"),
        ({"name": ["a"], "id": [-1]}, "'id' should be uint64"),
        ({"name": ["a"], "id": [None]}, "'id' has nulls"),
        ({"name": ["a"], "id": ["x"]}, "'id' should be uint64"),
        ({"name": ["a"], "data_deps": [[None]]}, "nulls inside its lists"),
        ({"name": ["a"], "data_deps": [None]}, "'data_deps' has nulls"),
        ({"name": ["a"], "foo": [[1, None]]}, "nulls inside its lists"),
        ({"name": ["a", "b"], "foo": [1, "x"]}, "hold values of one kind"),
        ({"name": ["a"], "foo": [{"x": 1}]}, "no Chakra attribute can hold"),
        ({"name": ["a"], "comm_size": ["big"]}, "'comm_size' should be int64"),
        ({"name": ["a"], "comm_tag": [2**40]}, "do not fit int32_val"),
        ({"name": ["a"], "_layout": [0]}, "private"),
    ],
)
def test_columns_that_cannot_be_nodes_are_refused(data: dict, problem: str) -> None:
    with pytest.raises(TraceError, match=problem):
        Trace.from_columns(data)


def test_attributes_named_like_fields_have_columns_of_their_own() -> None:
    trace = Trace.from_columns({"name": ["a"], "attr:id": ["x"], "attr:foo": [1]})
    assert trace[0].attributes == {"id": "x", "foo": 1}
    assert trace.column("foo").tolist() == [1]
