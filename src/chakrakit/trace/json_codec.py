"""Traces as JSON: one valid document of ours, the reference jsonizer's objects, the feeder's graph.

Ours is `{"format": "chakra-trace", "version": 1, "metadata": {…}, "nodes": [` with a node a line, so that
it can be written and read in pieces; every member, unknown field and odd value survives.
"""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import msgspec

from chakrakit import _core
from chakrakit.errors import FormatError
from chakrakit.trace import et, wire
from chakrakit.trace.metadata import Metadata
from chakrakit.trace.trace import Trace

_HEAD = b'{"format": "chakra-trace", "version": 1, "metadata": '
_NODES = b', "nodes": [\n'
_TAIL = b"\n]}\n"
_PIECE = 8192


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
            metadata = b"null" if raw is None else _core.json_metadata(raw)
            self._stream.write(_HEAD + metadata + _NODES)
            self._started = True
        # Small texts: the memory of one serves the next, where large ones would each fault in anew.
        for data in et.frames(piece, _PIECE):
            self._stream.write(_core.json_nodes(data, self._first))
            self._first = False

    def close(self) -> None:
        """Ends the document."""
        if not self._started:
            self._stream.write(_HEAD + b"null" + _NODES)
        self._stream.write(_TAIL)


def scan(stream: io.BufferedReader, name: str) -> Iterator[Trace]:
    """A JSON trace of any of the three kinds, in pieces."""
    head = stream.peek(256)[:256].lstrip()
    if head.startswith(_HEAD[:24]):
        yield from _scan_ours(stream, name)
    elif b'"workload_graph"' in head:
        from chakrakit.trace import feeder_json

        yield feeder_json.read(stream, name)
    else:
        objects = _concatenated(stream, name)
        yield from _pieces(objects, Metadata(wire.metadata_from_json(next(objects, {}))), name)


def _scan_ours(stream: io.BufferedReader, name: str) -> Iterator[Trace]:
    text = stream.readline().rstrip().removesuffix(b'"nodes": [').rstrip().removesuffix(b",")
    head = _decode(text + b"}", name)
    if head.get("version") != 1:
        raise FormatError(
            f"version {head.get('version')} of the JSON form; this reads 1", path=name
        )
    found = head.get("metadata")
    metadata = Metadata(None if found is None else wire.metadata_from_json(found))
    yield from _pieces(_our_nodes(stream, name), metadata, name)


def _pieces(objects: Iterator[dict[str, Any]], metadata: Metadata, name: str) -> Iterator[Trace]:
    """Node objects as traces of some thousand nodes; one, if there are no nodes."""
    first = True
    while (batch := list(itertools.islice(objects, _PIECE))) or first:
        frames = b"".join(wire.frame(wire.node_from_json(o)) for o in batch)
        stream = cast(io.BufferedReader, io.BytesIO(b"\x00" + frames))
        for piece in et.scan(stream, name):
            yield piece.with_metadata(metadata)
        first = False


def _our_nodes(stream: io.BufferedReader, name: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(stream, 2):
        text = line.strip().removesuffix(b",")
        if text == b"]}":
            return
        if text:
            yield _decode(text, name, number)
    raise FormatError("the document is cut off: it does not end with ]}", path=name)


def _decode(text: bytes, name: str, line: int = 1) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise FormatError(f"line {line:,}: {error}", path=name) from None
    if not isinstance(found, dict):
        raise FormatError(f"line {line:,}: a node should be an object", path=name)
    return found


def _concatenated(stream: io.BufferedReader, name: str) -> Iterator[dict[str, Any]]:
    """Objects one after another, as the reference jsonizer writes them: no commas, no brackets."""
    decoder = json.JSONDecoder()
    text, last, line = "", False, 1
    while not last:
        block = stream.read(1 << 20)
        last = not block
        text += block.decode("utf-8", "strict") if block else ""
        at = 0
        while True:
            while at < len(text) and text[at] in " \t\r\n":
                at += 1
            if at == len(text):
                break
            try:
                found, end = decoder.raw_decode(text, at)
            except (ValueError, RecursionError) as error:
                if last:
                    place = line + text.count("\n", 0, at)
                    raise FormatError(f"line {place:,}: {error}", path=name) from None
                break
            if not isinstance(found, dict):
                raise FormatError("not a trace: a JSON value that is not an object", path=name)
            yield found
            at = end
        line += text.count("\n", 0, at)
        text = text[at:]
