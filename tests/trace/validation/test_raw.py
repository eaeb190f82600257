"""Attributes kept as bytes, and why they are not in a column."""

import io

import pytest

from chakrakit import read
from chakrakit.trace.model import Member, field_bytes
from chakrakit.trace.model.wire import attribute, field_varint, frame
from chakrakit.trace.validation.nodes import raw_attributes


def reasons(*attributes):
    node = field_varint(1, 1) + field_bytes(2, b"a") + field_varint(3, 4)
    node += b"".join(field_bytes(10, a) for a in attributes)
    trace = read(io.BytesIO(frame(b"") + frame(node))).trace(0)
    return [(r.name, r.code) for r in raw_attributes(trace)]


SIZE = attribute("comm_size", Member.int64_val, 8)


@pytest.mark.parametrize(
    ("attributes", "found"),
    [
        ((SIZE,), []),
        ((SIZE, SIZE), [("comm_size", "attribute-twice")]),
        ((attribute("comm_size", Member.string_val, "8"),), [("comm_size", "attribute-type")]),
        ((field_bytes(1, b"comm_size"),), [("comm_size", "attribute-empty")]),
        ((SIZE + field_bytes(2, b"doc"),), [("comm_size", "attribute-raw")]),
        ((attribute("comm_size", Member.uint64_val, 2**63),), [("comm_size", "attribute-range")]),
        ((attribute("my_own", Member.string_val, "x"),), []),
    ],
)
def test_the_reason_for_each(attributes, found):
    assert reasons(*attributes) == found
