"""Traces as JSON: chakrakit's document, the reference jsonizer's objects, the feeder's graph.

chakrakit's is `{"format": "chakra-trace", "version": 1, "metadata": {…}, "nodes": [` with one node per line,
so that it can be written and read in pieces; every member, unknown field and odd value survives. The same
document laid out in another way is read too, but as a whole.
"""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, cast

import msgspec

import chakrakit.core as core
from chakrakit.errors import FormatError
from chakrakit.trace.codecs import et, feeder_json, json_objects
from chakrakit.trace.model import Metadata, Trace, wire

_FORMAT = "chakra-trace"
_TEXT_ROWS = 8192
"""Nodes whose text is made at a time; see `JsonWriter.write` for why not more."""
_HEAD = b'{"format": "chakra-trace", "version": 1, "metadata": '
_NODES = b', "nodes": [\n'
_TAIL = b"\n]}\n"
_BLOCK = 1 << 20
"""Bytes read at a time."""
_FOREIGN_KEYS = {
    "schema": "this is a PyTorch execution trace; `chakra link` makes a Chakra trace of it",
    "traceEvents": "this is a Kineto or Chrome trace; `chakra link` makes a Chakra trace of it",
}

Objects = Iterator[tuple[str, dict[str, Any]]]
"""(place, object): the place is for messages."""


class JsonWriter:
    """Writes pieces of a trace as one JSON document."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._started = False
        self._first = True

    def write(self, piece: Trace) -> None:
        """Appends the nodes of this piece."""
        if not self._started:
            raw = piece.metadata.raw
            metadata = b"null" if raw is None else core.json_metadata(raw)
            self._stream.write(_HEAD + metadata + _NODES)
            self._started = True
        # Small texts: the memory of one serves the next, where large ones would each fault in anew.
        for data in et.frames(piece, _TEXT_ROWS):
            self._stream.write(core.json_nodes(data, self._first))
            self._first = False

    def close(self) -> None:
        """Ends the document."""
        if not self._started:
            self._stream.write(_HEAD + b"null" + _NODES)
        self._stream.write(_TAIL)


def scan(stream: io.BufferedReader, name: str) -> Iterator[Trace]:
    """A JSON trace of any of the three kinds, in pieces."""
    head = b""
    if stream.peek(64).startswith(_HEAD):
        head = stream.readline()
        if head.endswith(_NODES):
            yield from _scan_lines(head, stream, name)
            return
    yield from _scan_objects(_concatenated(head, stream, name), name)


def _scan_lines(head: bytes, stream: io.BufferedReader, name: str) -> Iterator[Trace]:
    header = _decode(head.removesuffix(_NODES) + b"}", name, 1)
    yield from _pieces(_our_nodes(stream, name), _metadata(header.get("metadata"), name), name)


def _our_nodes(stream: io.BufferedReader, name: str) -> Objects:
    for number, line in enumerate(stream, 2):
        text = line.strip().removesuffix(b",")
        if text == b"]}":
            if stream.read(_BLOCK).strip():
                raise FormatError(f"line {number + 1:,}: text after the document", path=name)
            return
        if text:
            yield f"line {number:,}", _decode(text, name, number)
    raise FormatError("the document is cut off: it does not end with ]}", path=name)


def _decode(text: bytes, name: str, line: int) -> dict[str, Any]:
    try:
        decoded = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise FormatError(f"line {line:,}: {_problem(error)}", path=name) from None
    if not isinstance(decoded, dict):
        raise FormatError(f"line {line:,}: a node should be an object", path=name)
    return decoded


def _problem(error: Exception) -> str:
    """An error's text for users: Python's own about deep nesting and long numbers is for programmers."""
    if isinstance(error, RecursionError):
        return "nested far deeper than the nodes of a trace are"
    if "integer string conversion" in str(error):
        return "a number of more digits than any field of a trace has"
    return str(error)


def _scan_objects(objects: Objects, name: str) -> Iterator[Trace]:
    """Reads what the first object says it is: chakrakit's or the feeder's document, or a header."""
    _, first = next(objects, ("", {}))
    for key, cure in _FOREIGN_KEYS.items():
        if key in first:
            raise FormatError(cure, path=name)
    if "workload_graph" in first:
        yield feeder_json.from_document(first, name)
    elif "format" in first:
        yield from _scan_document(first, name)
    else:
        yield from _pieces(objects, _metadata(first, name), name)


def _scan_document(document: dict[str, Any], name: str) -> Iterator[Trace]:
    if document["format"] != _FORMAT or document.get("version") != 1:
        declared = f"{document['format']!r} version {document.get('version')!r}"
        raise FormatError(
            f"the document says it is {declared}; this reads {_FORMAT!r} 1", path=name
        )
    nodes = document.get("nodes")
    if not isinstance(nodes, list):
        raise FormatError('"nodes" should be a list', path=name)
    objects = ((f"node number {i:,}", node) for i, node in enumerate(nodes))
    yield from _pieces(objects, _metadata(document.get("metadata"), name), name)


def _metadata(header: Any, name: str) -> Metadata:
    if header is None:
        return Metadata(None)
    try:
        raw = json_objects.metadata(header)
    except FormatError as error:
        raise FormatError(error.problem, path=name) from None
    return Metadata.checked(raw, name)


def _pieces(objects: Objects, metadata: Metadata, name: str) -> Iterator[Trace]:
    """Node objects as traces of some thousand nodes; one, if there are no nodes."""
    frames = cast(io.RawIOBase, _Frames(_frames(objects, name)))
    stream: Any = io.BufferedReader(frames, _BLOCK)
    for piece in et.scan(stream, name):
        yield piece.with_metadata(metadata)


def _frames(objects: Objects, name: str) -> Iterator[bytes]:
    """The objects as an `.et` file with an empty header."""
    yield b"\x00"
    for place, obj in objects:
        try:
            yield wire.frame(json_objects.node(obj))
        except FormatError as error:
            raise FormatError(f"{place}: {error.problem}", path=name) from None


class _Frames(io.RawIOBase):
    """Byte strings one after another, as a stream."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = iter(parts)
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view, filled = memoryview(buffer).cast("B"), 0  # type: ignore[arg-type]
        while filled < len(view):
            if not self._left:
                self._left = next(self._parts, b"")
                if not self._left:
                    break
            part = self._left[: len(view) - filled]
            view[filled : filled + len(part)] = part
            self._left = self._left[len(part) :]
            filled += len(part)
        return filled


def _concatenated(head: bytes, stream: io.BufferedReader, name: str) -> Objects:
    """Objects one after another, as the reference jsonizer writes them: no commas, no brackets.

    An object larger than what has been read is tried again with twice as much, so that the work
    stays in proportion to the file.
    """
    text = codecs.getincrementaldecoder("utf-8-sig")()
    pending, line, block, last = _utf8(text, head, name), 1, _BLOCK, False
    while not last:
        data = stream.read(block)
        last = not data
        pending += _utf8(text, data, name)
        at = 0
        for start, end, obj in _objects_in(pending, last, line, name):
            yield f"line {line + pending.count(chr(10), 0, start):,}", obj
            at = end
        line += pending.count("\n", 0, at)
        pending = pending[at:]
        block = max(_BLOCK, len(pending))


def _objects_in(
    text: str, last: bool, line: int, name: str
) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """(start, end, object) of the complete ones at the beginning of the text."""
    decoder, at = json.JSONDecoder(), 0
    while True:
        while at < len(text) and text[at] in " \t\r\n":
            at += 1
        if at == len(text):
            return
        try:
            decoded, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            if not last:
                return
            place = line + text.count("\n", 0, at)
            raise FormatError(f"line {place:,}: {_problem(error)}", path=name) from None
        if not isinstance(decoded, dict):
            raise FormatError("not a trace: a JSON value that is not an object", path=name)
        yield at, end, decoded
        at = end


def _utf8(decoder: codecs.IncrementalDecoder, data: bytes, name: str) -> str:
    try:
        return decoder.decode(data, final=not data)
    except UnicodeDecodeError as error:
        raise FormatError(f"not UTF-8 text: {error.reason}", path=name) from None
