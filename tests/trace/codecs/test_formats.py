"""Formats of one trace: told by content when reading, by suffix when writing, refused by name otherwise."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from chakrakit import Member, Trace
from chakrakit.errors import ChakraError, FormatError
from chakrakit.trace.codecs import (
    format_of,
    is_one_file,
    open_writer,
    read_trace,
    scan_trace,
    write_trace,
)
from chakrakit.trace.model import wire


@pytest.mark.parametrize(
    ("head", "told"),
    [
        (b"PK\x03\x04", "a zip, not a trace"),
        (b"\x89PNG\r\n\x1a\n", "a PNG image, not a trace"),
        (b"%PDF-1.7", "a PDF document"),
        (b"\0" * 257 + b"ustar", "a tar archive"),
        (b"BZh9", "a bzip2 archive"),
        (b"[1, 2]", "JSON, but not a trace"),
        (b"once upon a time", "plain text, not a trace; a trace is .et"),
        ("à".encode() * 300 + "é".encode()[:1], "plain text"),  # a character cut in two
    ],
)
def test_files_that_users_mistake_for_traces_are_told_by_name(head: bytes, told: str) -> None:
    with pytest.raises(FormatError, match=told):
        read_trace(io.BytesIO(head))


@pytest.mark.parametrize("name", ["a.et", "a.et.gz", "a.json", "a.json.zst", "a.parquet"])
def test_what_a_suffix_wrote_is_told_by_content(tmp_path: Path, name: str) -> None:
    trace = Trace.from_columns({"name": ["a", "b"], "stream": [7, None]})
    assert write_trace(trace, tmp_path / name) == {}
    (tmp_path / name).rename(tmp_path / "renamed")
    assert read_trace(tmp_path / "renamed").column("stream", -1).tolist() == [7, -1]
    assert sum(len(piece) for piece in scan_trace(tmp_path / "renamed")) == 2


def test_what_a_format_has_no_place_for_is_counted(tmp_path: Path) -> None:
    trace = Trace.from_columns({"name": ["a", "b"], "strange": [[1], None]})
    assert write_trace(trace, tmp_path / "a.feeder.json") == {"strange": 1}


def test_nothing_is_left_of_a_writer_that_failed(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), open_writer(tmp_path / "a.et"):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "one"),
    [("a.et", True), ("-", True), ("a.json.gz", True), ("a.N", False), ("d", False)],
)
def test_a_name_says_whether_it_is_one_file(name: str, one: bool) -> None:
    assert is_one_file(name) is one


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.et", ".et"),
        ("a.et.gz", ".et"),
        ("a.json.zst", ".json"),
        ("a.feeder.json", ".feeder.json"),
        ("a.parquet", ".parquet"),
        ("-", ".et"),
    ],
)
def test_the_suffix_says_the_format_to_write(name: str, format: str) -> None:
    assert format_of(name) == format


def test_a_name_that_says_no_format_is_refused_with_those_that_do() -> None:
    with pytest.raises(ChakraError, match=r"use \.et, \.json"):
        format_of("a.txt")
    with pytest.raises(ChakraError, match="compressed inside"):
        format_of("a.parquet.gz")


def test_a_header_that_starts_like_json_is_not_json() -> None:
    """123 bytes of header are a '{', a version field is a line end, its 34 bytes are a '"'."""
    attribute = wire.attribute("a", Member.string_val, "y" * 79)
    header = wire.field_bytes(1, b"x" * 34) + wire.field_bytes(2, attribute)
    assert wire.frame(header).startswith(b'{\n"')
    assert read_trace(io.BytesIO(wire.frame(header))).metadata.version == "x" * 34
