"""The `.et` codec: varint-delimited protobuf, straight to and from columns."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

import chakrakit.core as core
from chakrakit.arrays import U8
from chakrakit.errors import FormatError, TraceError
from chakrakit.trace.model import Layouts, Metadata, Trace, columns, wire

CHUNK_ROWS = 65_536
"""Nodes of a piece when a trace is read in pieces; fewer would pay the cost of a table more often."""
_WHOLE_ROWS = 1 << 17  # large batches sit on large pages
_BLOCK = 1 << 20
"""Bytes read at a time; the buffer grows for a node that is larger."""
_CHUNK_BYTES = 1 << 28
"""Encoded bytes of a batch, after which it is full; Arrow's 32-bit offsets end at eight times as many."""
_MAX_COLUMNS = 512
"""Attributes that become columns, several times the vocabulary; what a file has beyond is kept raw."""
_FEW_NODES = 1 << 20
"""Files of fewer nodes are not checked for empty ones: what these take in memory does no harm."""
_SMALLEST_NODE = 8
"""Bytes: a length, an id, a type and a name of one letter."""


def read(stream: io.BufferedReader, name: str) -> Trace:
    """Reads a whole trace, with its names in one dictionary."""
    decoder = _decoder()
    batches = list(_batches(stream, name, decoder, _WHOLE_ROWS))
    return _assembled(decoder, batches, Metadata(decoder.metadata))


def _assembled(decoder: core.Decoder, batches: list[dict[str, Any]], metadata: Metadata) -> Trace:
    names = columns.names_array(*decoder.names(False))
    tables = [columns.table_from_batch(b, names) for b in batches]
    table = pa.concat_tables(tables, promote_options="default")
    return Trace(table, _layouts(decoder), metadata)


def scan(stream: io.BufferedReader, name: str, rows: int = CHUNK_ROWS) -> Iterator[Trace]:
    """The trace in pieces of at most `rows` nodes, in bounded memory."""
    decoder = _decoder()
    for batch in _batches(stream, name, decoder, rows):
        names = columns.names_array(*decoder.names(True))
        table = columns.table_from_batch(batch, names)
        yield Trace(table, _layouts(decoder, forget=True), Metadata(decoder.metadata))


def recast(trace: Trace, keep: set[str]) -> Trace:
    """The same trace with only these attributes as columns, the others raw."""
    column_storages = [(n, s) for n, s in columns.known_columns() if n in keep]
    vocabulary_names = {n for n, _ in column_storages}
    for name in sorted(keep - vocabulary_names):
        kind = trace.table.schema.field(columns.column_name(name)).type
        storage = columns.STORAGE_TYPES.index(columns.storage_type(kind, name))
        column_storages.append((name, storage))
    decoder = core.Decoder(column_storages, len(column_storages))
    header = np.frombuffer(wire.frame(trace.metadata.raw or b""), np.uint8)
    batches = []
    for data in (header, *frames(trace)):
        position = _decode(decoder, data, True, _WHOLE_ROWS, "trace")
        while decoder.full:
            batches.append(decoder.take_batch())
            position += _decode(decoder, data[position:], True, _WHOLE_ROWS, "trace")
    batches.append(decoder.take_batch())
    return _assembled(decoder, batches, trace.metadata)


def frames(trace: Trace, rows: int = CHUNK_ROWS) -> Iterator[U8]:
    """The nodes as bytes, a chunk of at most `rows` at a time."""
    for batch in chunks_of(trace.table, rows):
        try:
            yield core.encode(columns.encoder_input(batch, trace.layouts))
        except core.FormatError as error:
            raise TraceError(f"the trace cannot be encoded: {error.args[0]}") from None


def chunks_of(table: pa.Table, rows: int = CHUNK_ROWS) -> Iterator[pa.Table]:
    """Pieces of at most `rows` rows, each in one Arrow chunk where it can be."""
    for batch in table.to_batches(max_chunksize=rows):
        if batch.num_rows:
            yield pa.Table.from_batches([batch])


class EtWriter:
    """Writes traces, or pieces of one, to a stream. The first piece's metadata is the header."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._started = False

    def write(self, piece: Trace) -> None:
        """Appends the nodes of this piece."""
        if not self._started and piece.metadata.raw is not None:
            self._stream.write(wire.frame(piece.metadata.raw))
        self._started = True
        for data in frames(piece):
            self._stream.write(memoryview(data))  # type: ignore[arg-type]

    def close(self) -> None:
        """Does nothing: an `.et` file has no end mark."""


def _decoder() -> core.Decoder:
    return core.Decoder(columns.known_columns(), _MAX_COLUMNS)


def _layouts(decoder: core.Decoder, forget: bool = False) -> Layouts:
    flags, offsets, numbers, members = decoder.layouts(forget)
    return Layouts.from_core(decoder.column_names, flags, offsets, numbers, members)


def _batches(
    stream: io.BufferedReader, name: str, decoder: core.Decoder, rows: int
) -> Iterator[dict[str, Any]]:
    """Decoded batches; at least one, if only an empty one for a trace without nodes."""
    buffer = np.empty(_BLOCK, np.uint8)
    filled, last, any_batch = 0, False, False
    nodes = size = 0
    while not last:
        if filled == len(buffer):
            buffer = np.concatenate([buffer, np.empty_like(buffer)])
        received = stream.readinto(memoryview(buffer)[filled:])  # type: ignore[arg-type]
        filled, last = filled + received, received == 0
        position = 0
        while True:
            position += _decode(decoder, buffer[position:filled], last, rows, name)
            _check_content(nodes + decoder.rows, size + position, name)
            if not decoder.full:
                break
            any_batch = True
            nodes += decoder.rows
            yield decoder.take_batch()
        size += position
        buffer[: filled - position] = buffer[position:filled].copy()
        filled -= position
    if not decoder.started:
        raise FormatError("the file is empty; a trace has at least a header", path=name)
    if decoder.rows or not any_batch:
        yield decoder.take_batch()


def _check_content(nodes: int, size: int, name: str) -> None:
    """Refuses nodes that hold nothing: each takes far more memory than the byte or two it is written in."""
    if nodes > _FEW_NODES and size < nodes * _SMALLEST_NODE:
        raise FormatError(
            f"{nodes:,} nodes in {size:,} bytes, too few for an id, a type and a name each; "
            "the file is damaged or not a trace",
            path=name,
        )


def _decode(decoder: core.Decoder, data: U8, last: bool, rows: int, name: str) -> int:
    try:
        return decoder.decode(data, last, rows, _CHUNK_BYTES)
    except core.FormatError as error:
        message, offset = error.args
        raise FormatError(message, path=name, offset=offset) from None
