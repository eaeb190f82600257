"""Gzip files that are read whole: their content, or an error before it fills the memory."""

from __future__ import annotations

import gzip

import pytest

from chakrakit.errors import FormatError
from chakrakit.trace.files import unpacked
from support.bounded import memory_below

TEXT = b"".join(b"event %d\n" % i for i in range(100_000))


def test_plain_and_packed_bytes() -> None:
    assert unpacked(TEXT, "x") == TEXT
    assert unpacked(gzip.compress(TEXT), "x") == TEXT
    assert unpacked(gzip.compress(TEXT) + gzip.compress(b"more") + b"\0\0", "x") == TEXT + b"more"


@pytest.mark.slow
def test_a_bomb_is_refused_while_it_is_unpacked() -> None:
    data = gzip.compress(bytes(200 << 20))
    told = pytest.raises(FormatError, match=r"more than 100 times its size")
    with memory_below(200e6), told:
        unpacked(data, "x")


def test_what_is_cut_off_or_damaged() -> None:
    data = gzip.compress(TEXT)
    with pytest.raises(FormatError, match="cut off"):
        unpacked(data[:-500], "x")
    with pytest.raises(FormatError, match="damaged"):
        unpacked(data[:1000] + b"\0" * 100 + data[1100:], "x")
    assert TEXT.startswith(unpacked(data[:-500], "x", cut_off=True))
