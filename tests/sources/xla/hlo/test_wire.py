"""Protobuf messages by field number."""

import pytest

from chakrakit.errors import FormatError
from chakrakit.sources.xla.hlo_proto import WireMessage
from chakrakit.trace.model import field_bytes, varint


def number(field, value):
    return varint(field << 3) + varint(value % 2**64)


def test_of_a_single_field_the_last_value_counts():
    message = WireMessage(number(1, 5) + number(1, 6) + field_bytes(2, b"a") + field_bytes(2, b"b"))
    assert (message.integer(1), message.text(2)) == (6, "b")


def test_what_is_absent_or_of_another_kind_has_its_default():
    message = WireMessage(field_bytes(1, b"x"))
    assert (message.integer(1, -1), message.integer(9), message.text(9)) == (-1, 0, "")
    assert (1 in message, 9 in message, message.message(9)) == (True, False, None)


def test_repeated_numbers_may_be_packed_or_not_and_are_signed():
    packed = field_bytes(3, varint(1) + varint(2**64 - 1))
    assert WireMessage(packed + number(3, 7)).integers(3) == [1, -1, 7]


def test_messages_inside_messages():
    message = WireMessage(field_bytes(4, number(1, 3)) + field_bytes(4, number(1, 4)))
    assert [m.integer(1) for m in message.messages(4)] == [3, 4]
    assert message.message(4).integer(1) == 4
    assert message.raw(4) == [number(1, 3), number(1, 4)]


def test_damage_is_refused():
    with pytest.raises(FormatError, match="runs past its message"):
        WireMessage(b"\x12\x05hi")
    with pytest.raises(FormatError, match="a number is cut off"):
        WireMessage(field_bytes(3, b"\x80")).integers(3)
