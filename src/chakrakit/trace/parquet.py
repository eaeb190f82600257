"""Traces as Parquet: the table of nodes, with what the table does not say in the file's metadata."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chakrakit.errors import FormatError
from chakrakit.trace import columns, et
from chakrakit.trace.layouts import Layouts
from chakrakit.trace.metadata import Metadata
from chakrakit.trace.trace import Trace
from chakrakit.trace.vocabulary import by_name

_LAYOUTS, _METADATA, _VERSION = b"chakra.layouts", b"chakra.metadata", b"chakra.version"


class ParquetWriter:
    """Writes pieces of a trace as one Parquet file.

    The columns are the first piece's and the vocabulary's; attributes that show up later go to the
    raw column, so that nothing is lost and memory stays bounded.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._writer: Any = None
        self._schema: pa.Schema | None = None
        self._layouts = Layouts(())
        self._metadata: Metadata | None = None

    def write(self, piece: Trace) -> None:
        """Appends the nodes of this piece."""
        if self._schema is None:
            self._metadata = piece.metadata
            self._schema = _schema(piece.table.schema)
            self._writer = pq.ParquetWriter(self._stream, self._schema, compression="zstd")
        known = set(self._schema.names)
        if not set(piece.table.column_names) <= known:
            keep = {
                a
                for c in known
                if (a := columns.attribute_name(c)) and c in piece.table.column_names
            }
            piece = et.recast(piece, keep)
        self._layouts, renumbered = self._layouts.merge(piece.layouts)
        table = _plain(piece.table, self._schema, renumbered)
        self._writer.write_table(table)

    def close(self) -> None:
        """Writes the layouts and the header, known only now."""
        if self._schema is None:
            self.write(Trace.from_columns({"name": []}))
        raw = self._metadata.raw if self._metadata else b""
        self._writer.add_key_value_metadata({
            _VERSION: b"1",
            _LAYOUTS: msgspec.json.encode(self._layouts.to_plain()),
            **({} if raw is None else {_METADATA: base64.b64encode(raw)}),
        })  # fmt: skip
        self._writer.close()


def _schema(first: pa.Schema) -> pa.Schema:
    fields = dict(columns.FIELD_TYPES)
    fields["name"] = pa.string()
    for attribute in by_name().values():
        storage = columns.storage_of_member(attribute.member)
        fields[columns.column_name(attribute.name)] = columns.STORAGE_TYPES[storage]
    for field in first:
        if field.name not in fields and not field.name.startswith("_"):
            fields[field.name] = columns.storage_type(field.type, field.name)
    return pa.schema(list({**fields, **columns.PRIVATE_TYPES}.items()))


def _plain(table: pa.Table, schema: pa.Schema, renumbered: Any) -> pa.Table:
    """The table in the file's types: names as strings, missing columns as nulls."""
    rows = table.num_rows
    layout = pa.array(renumbered[table.column("_layout").to_numpy()].astype(np.int32))
    found = {f.name: table.column(f.name).cast(f.type) if f.name in table.column_names
             else pa.nulls(rows, f.type) for f in schema if f.name != "_layout"}  # fmt: skip
    return pa.table({**found, "_layout": layout}, schema=schema)


def scan(stream: io.BufferedReader, name: str, rows: int = et.CHUNK_ROWS) -> Iterator[Trace]:
    """A Parquet trace in pieces. Also takes a plain table that has `id` and what else is there."""
    try:
        file = pq.ParquetFile(_seekable(stream))
        layouts, metadata = _described(file)
        first = True
        for batch in file.iter_batches(batch_size=rows):
            first = False
            yield _piece(pa.Table.from_batches([batch]), layouts, metadata)
        if first:
            yield _piece(file.schema_arrow.empty_table(), layouts, metadata)
    except (pa.ArrowException, msgspec.MsgspecError, ValueError, TypeError, OSError) as error:
        raise FormatError(f"not a Parquet trace: {error}", path=name) from None


def _seekable(stream: io.BufferedReader) -> Any:
    """Parquet has its index at the end: a pipe must be read whole."""
    return stream if stream.seekable() else pa.BufferReader(stream.read())


def _described(file: pq.ParquetFile) -> tuple[Layouts | None, Metadata]:
    notes = file.metadata.metadata or {}
    raw = notes.get(_METADATA)
    metadata = Metadata(None if raw is None and _VERSION in notes else base64.b64decode(raw or b""))
    if _LAYOUTS not in notes:
        return None, metadata
    plain = msgspec.json.decode(
        notes[_LAYOUTS], type=list[tuple[int, list[tuple[str | None, int]]]]
    )
    return Layouts.from_plain(plain), metadata


def _piece(table: pa.Table, layouts: Layouts | None, metadata: Metadata) -> Trace:
    present = [c for c in table.column_names
               if c in columns.FIELD_TYPES or table.column(c).null_count < table.num_rows]  # fmt: skip
    data = {c: table.column(c) for c in present}
    if layouts is None:
        return Trace.from_columns(
            {c: v for c, v in data.items() if not c.startswith("_")}, None, metadata
        )
    rows = data.pop("_layout", pa.chunked_array([pa.array([], pa.int32())])).to_numpy()
    if len(rows) and not (rows.min() >= 0 and rows.max() < len(layouts.items)):
        raise ValueError("a row refers to a layout that is not there")
    for name, kind in columns.FIELD_TYPES.items():
        if name in data and name != "name":
            data[name] = data[name].cast(kind)
    data["name"] = data["name"].combine_chunks().dictionary_encode()
    io_absent = [
        c for c in columns.IO_COLUMNS if c in data and data[c].null_count == table.num_rows
    ]
    for name in io_absent:
        del data[name]
    return Trace(pa.table({**data, "_layout": pa.array(rows.astype(np.int32))}), layouts, metadata)
