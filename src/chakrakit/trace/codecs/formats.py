"""File formats of a single trace: told by content when reading, by suffix when writing."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterator
from typing import BinaryIO, Protocol

from chakrakit.errors import ChakraError, FormatError
from chakrakit.trace.files import STDIO, ZIP, Source, display_name, open_input, open_output
from chakrakit.trace.model import Trace

SUFFIXES = (".et", ".json", ".parquet")
COMPRESSIONS = ("", ".gz", ".zst")
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")


class TraceWriter(Protocol):
    """Takes a trace in pieces."""

    def write(self, piece: Trace) -> None:
        """Appends the nodes of this piece."""

    def close(self) -> None:
        """Writes what comes last."""


def _guess(stream: io.BufferedReader, name: str) -> str:
    head = stream.peek(256)[:256]
    if head.startswith(ZIP):
        raise FormatError(
            "a zip, not a trace; a bundle is opened by its own path, not through a pipe", path=name
        )
    if head.startswith(b"PAR1"):
        return ".parquet"
    _refuse_other(stream, name)
    # A header of 123 bytes starts with the same byte as JSON, but then has control characters.
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if (
        text.startswith(b"{")
        and text[1:].lstrip()[:1] in (b'"', b"}")
        and not _CONTROL.search(text)
    ):
        return ".json"
    return ".et"


_KINDS = (
    (0, b"\x89PNG\r\n", "a PNG image"),
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"GIF8", "a GIF image"),
    (0, b"%PDF-", "a PDF document"),
    (0, b"\x7fELF", "a program (ELF)"),
    (0, b"SQLite format 3", "an SQLite database"),
    (0, b"\x89HDF\r\n", "an HDF5 file"),
    (0, b"BZh", "a bzip2 archive"),
    (0, b"\xfd7zXZ", "an xz archive"),
    (257, b"ustar", "a tar archive"),
)
"""Files that users mistake for traces: where their mark is, and what they are."""


def _refuse_other(stream: io.BufferedReader, name: str) -> None:
    """Raises a FormatError for a file that is recognised as something else, plain text included."""
    head = stream.peek(512)[:512]
    for at, mark, description in _KINDS:
        if head[at:].startswith(mark):
            raise FormatError(f"{description}, not a trace; {_FORMATS}", path=name)
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text.startswith(b"{") and len(head) > 3 and _is_text(head):
        description = (
            "JSON, but not a trace" if text.startswith(b"[") else "plain text, not a trace"
        )
        raise FormatError(f"{description}; {_FORMATS}", path=name)


_FORMATS = "a trace is .et (protobuf), JSON or Parquet, told by its content"


def _is_text(head: bytes) -> bool:
    """Whether bytes are readable text: no trace in protobuf is without control characters."""
    if _CONTROL.search(head):
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start >= len(head) - 3  # a character cut in two
    return True


def read_trace(source: Source) -> Trace:
    """A whole trace in memory."""
    name = display_name(source)
    with open_input(source) as stream:
        kind = _guess(stream, name)
        if kind == ".et":
            from chakrakit.trace.codecs import et

            return et.read(stream, name)
        if kind == ".parquet":
            from chakrakit.trace.codecs import parquet

            return parquet.read(stream, name)
        return Trace.concat(_scan(stream, name))


def scan_trace(source: Source) -> Iterator[Trace]:
    """Read a trace in pieces, in bounded memory, from a file, a pipe or standard input.

    Parameters
    ----------
    source
        A path, `-`, or a stream.

    Examples
    --------
    >>> builder = ck.TraceBuilder()
    >>> gemm = builder.comp("gemm", duration_ns=1000)
    >>> _ = ck.write(builder.build(), "one.et")
    >>> sum(len(piece) for piece in ck.scan_trace("one.et"))
    1

    """
    with open_input(source) as stream:
        yield from _scan(stream, display_name(source))


def _scan(stream: io.BufferedReader, name: str) -> Iterator[Trace]:
    kind = _guess(stream, name)
    if kind == ".parquet":
        from chakrakit.trace.codecs import parquet

        return parquet.scan(stream, name)
    if kind == ".json":
        from chakrakit.trace.codecs import json_codec

        return json_codec.scan(stream, name)
    from chakrakit.trace.codecs import et

    return et.scan(stream, name)


def format_of(path: str | os.PathLike[str]) -> str:
    """The format a path's suffix asks for; `.et` for `-`."""
    text = os.fspath(path)
    if text == STDIO:
        return ".et"
    if re.search(r"\.parquet\.(gz|zst)$", text):
        raise ChakraError(f"{text}: Parquet is compressed inside; leave out the last suffix")
    for compression in COMPRESSIONS:
        for suffix in (".feeder.json", *SUFFIXES):
            if text.endswith(suffix + compression):
                return suffix
    raise ChakraError(
        f"{text}: cannot tell the format from the name; use .et, .json, .feeder.json or .parquet "
        "(.et and .json also with .gz or .zst), or a directory"
    )


def is_one_file(path: str | os.PathLike[str]) -> bool:
    """Whether this name is that of a single trace: it ends in a format's suffix, or is `-`."""
    text = os.fspath(path)
    return text == STDIO or bool(re.search(r"\.(et|json|parquet)(\.gz|\.zst)?$", text))


@contextlib.contextmanager
def open_writer(path: str | os.PathLike[str]) -> Iterator[TraceWriter]:
    """Open a writer for one trace in pieces; the file appears when all went well.

    Parameters
    ----------
    path
        The file; its suffix says the format.

    Examples
    --------
    >>> builder = ck.TraceBuilder()
    >>> gemm = builder.comp("gemm", duration_ns=1000)
    >>> with ck.open_writer("one.et") as writer:
    ...     writer.write(builder.build())
    >>> len(ck.read("one.et")[0])
    1

    """
    kind = format_of(path)
    with open_output(path, binary_only=kind in (".et", ".parquet")) as stream:
        writer = _writer(kind, stream)
        yield writer
        writer.close()


def _writer(kind: str, stream: BinaryIO) -> TraceWriter:
    if kind == ".parquet":
        from chakrakit.trace.codecs.parquet import ParquetWriter

        return ParquetWriter(stream)
    if kind == ".json":
        from chakrakit.trace.codecs.json_codec import JsonWriter

        return JsonWriter(stream)
    if kind == ".feeder.json":
        from chakrakit.trace.codecs.feeder_json import FeederJsonWriter

        return FeederJsonWriter(stream)
    from chakrakit.trace.codecs.et import EtWriter

    return EtWriter(stream)


def write_trace(trace: Trace, path: str | os.PathLike[str]) -> dict[str, int]:
    """A whole trace to one file; returns what its format has no place for: name → how many values."""
    with open_writer(path) as writer:
        writer.write(trace)
    return left_out(writer)


def left_out(writer: TraceWriter) -> dict[str, int]:
    """What a closed writer had no place for: name → how many values."""
    counts: dict[str, int] = getattr(writer, "left_out", {})
    return counts
