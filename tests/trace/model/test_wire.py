"""Protobuf's wire form: what is written is read back, and bytes from a file are never trusted."""

import pytest

from chakrakit.errors import FormatError
from chakrakit.trace.model import Member, field_bytes, varint
from chakrakit.trace.model.wire import attribute, fields, frame, frames, read_varint


@pytest.mark.parametrize(
    ("number", "data"),
    [(0, b"\x00"), (127, b"\x7f"), (128, b"\x80\x01"), (2**64 - 1, b"\xff" * 9 + b"\x01")],
)
def test_a_varint_has_seven_bits_per_byte(number, data):
    assert varint(number) == data
    assert read_varint(b"\x05" + data, 1) == (number, 1 + len(data))


@pytest.mark.parametrize("number", [-1, 2**64])
def test_a_number_that_does_not_fit_is_refused(number):
    with pytest.raises(ValueError, match="does not fit an unsigned 64-bit field"):
        varint(number)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x80" * 11])
def test_a_varint_without_an_end_is_refused(data):
    with pytest.raises(FormatError, match="a number is cut off"):
        read_varint(data, 0)


def test_messages_with_their_lengths_come_apart_again():
    parts = [b"a", b"", b"x" * 200]
    assert list(frames(b"".join(map(frame, parts)))) == parts


def test_fields_keep_their_order_and_repeat():
    """A varint, a text, four and eight fixed bytes, and the varint's number again."""
    data = b"\x08\x05" + field_bytes(2, b"hi") + b"\x1d\x01\x02\x03\x04" + b"\x21" + b"z" * 8
    data += b"\x08\x06"
    assert list(fields(data)) == [
        (1, 5),
        (2, b"hi"),
        (3, b"\x01\x02\x03\x04"),
        (4, b"z" * 8),
        (1, 6),
    ]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\x00\x01", "number 0"),
        (b"\x12\x05hi", "runs past its message"),
        (b"\x1d\x01", "runs past its message"),
        (b"\x0b\x0c", "runs past its message"),  # a group
    ],
)
def test_a_damaged_message_is_refused(data, problem):
    with pytest.raises(FormatError, match=problem):
        list(fields(data))


@pytest.mark.parametrize(
    ("member", "value", "data"),
    [
        (Member.sint64_val, -1, b"\x88\x01\x01"),
        (Member.int32_val, -1, b"\x38" + b"\xff" * 9 + b"\x01"),
        (Member.float_val, 1.0, b"\x2d\x00\x00\x80\x3f"),
        (Member.bool_list, [True, False], b"\xe2\x01\x04\x0a\x02\x01\x00"),
        (Member.int64_list, [], b"\x52\x00"),
    ],
)
def test_an_attribute_is_its_name_and_one_member(member, value, data):
    assert attribute("n", member, value) == b"\x0a\x01n" + data


def test_a_value_beyond_its_member_names_the_attribute():
    with pytest.raises(FormatError, match="attribute 'rank': 4294967296 does not fit uint32"):
        attribute("rank", Member.uint32_val, 2**32)
