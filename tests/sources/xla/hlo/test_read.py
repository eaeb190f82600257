"""HLO files of either form, told by their content."""

from __future__ import annotations

import pytest

from chakrakit.errors import FormatError
from chakrakit.sources.xla import is_hlo, parse_hlo
from support.foreign_files import HLO


@pytest.mark.parametrize("data", [b"", b"\x0a\xff\xff\xff\xff\x0f", b"\x00\x01", b"\x0a\x02hi\x12"])
def test_bytes_that_are_no_module_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        parse_hlo(data)


@pytest.mark.parametrize(
    ("head", "answer"),
    [
        (HLO.encode(), True),
        (b"// a comment\nHloModule jit_f\n", True),
        (b"\x0a\x01m\x12\x04main", True),  # a module's name, and its entry's
        (b"\x0a\x09\x0a\x01m\x12\x04main", True),  # the same inside an HloProto
        (b"\x0a\x01\xff\x12\x04main", False),
        (b"\x0a\x01m", False),
        (b"hello", False),
        (b"", False),
    ],
)
def test_a_module_is_told_by_its_first_bytes(head, answer):
    assert is_hlo(head) is answer


def test_an_error_names_the_file():
    with pytest.raises(FormatError, match="no ENTRY computation") as error:
        parse_hlo(b"HloModule m\n", "m.txt")
    assert error.value.path == "m.txt"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("num_partitions=4", "num_partitions=99999999", "99,999,999 devices; at most 262,144"),
        (
            "%a = f32[16,256]",
            f"%a = f32[16,{1 << 60}]",
            "a: a size or number that is negative or too large",
        ),
        (
            "%a = f32[16,256]",
            "%a = f32[16,-2]",
            "a: a size or number that is negative or too large",
        ),
        (
            "channel_id=1",
            f"channel_id={1 << 63}",
            "start: a size or number that is negative or too large",
        ),
    ],
)
def test_numbers_that_cannot_be_are_refused(old, new, said):
    with pytest.raises(FormatError, match=said):
        parse_hlo(HLO.replace(old, new).encode())
