"""Traces as Parquet: the table of nodes; header and layouts are in the file's metadata."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chakrakit.arrays import I32
from chakrakit.errors import FormatError, TraceError
from chakrakit.trace.codecs import et
from chakrakit.trace.codecs.parquet_footer import FooterColumn, null_columns
from chakrakit.trace.files import check_columns, is_large, parquet_file
from chakrakit.trace.model import Layouts, Member, Metadata, Trace, by_name, columns

_LAYOUTS, _METADATA, _VERSION = b"chakra.layouts", b"chakra.metadata", b"chakra.version"
_ALWAYS = set(columns.FIELD_TYPES) - set(columns.IO_COLUMNS)

_PlainLayout = tuple[Annotated[int, msgspec.Meta(ge=0, le=3)], list[tuple[str | None, int]]]


class _Unfinished(pq.ParquetWriter):  # type: ignore[misc]
    """Writes no end when it is let go of before it was closed: what went wrong closed its stream, too."""

    def __del__(self) -> None:
        """Not pyarrow's, which closes."""


class ParquetWriter:
    """Writes pieces of a trace as one Parquet file.

    The columns are the first piece's and the vocabulary's; attributes that show up later go to the
    raw column, so that nothing is lost and memory stays bounded.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._writer: Any = None
        self._schema: pa.Schema | None = None
        self._types: dict[str, pa.DataType] = {}
        self._layouts = Layouts(())
        self._metadata: Metadata | None = None

    def write(self, piece: Trace) -> None:
        """Appends the nodes of this piece."""
        if self._schema is None:
            self._metadata = piece.metadata
            self._schema = _schema(piece.table.schema)
            self._types = dict(zip(self._schema.names, self._schema.types, strict=True))
            self._writer = _Unfinished(self._stream, self._schema, compression="zstd")
        with_column, without_column = self._split_attributes(piece.table.schema)
        if without_column:
            piece = et.recast(piece, with_column)
        self._layouts, renumbered = self._layouts.merge(piece.layouts)
        table = _plain(piece.table, self._schema, renumbered)
        self._writer.write_table(table)

    def _split_attributes(self, schema: pa.Schema) -> tuple[set[str], set[str]]:
        """The piece's attributes that have a column in the file, and those that do not."""
        with_column: set[str] = set()
        without_column: set[str] = set()
        for field in schema:
            attribute = columns.attribute_name(field.name)
            if attribute is not None:
                kind = columns.storage_type(field.type, field.name)
                same = self._types.get(field.name) == kind
                (with_column if same else without_column).add(attribute)
        return with_column, without_column

    def close(self) -> None:
        """Writes the layouts and the header, known only now."""
        if self._schema is None:
            self.write(Trace.from_columns({"name": []}))
        raw = self._metadata.raw if self._metadata else b""
        self._writer.add_key_value_metadata(
            {
                _VERSION: b"1",
                _LAYOUTS: msgspec.json.encode(self._layouts.to_plain()),
                **({} if raw is None else {_METADATA: base64.b64encode(raw)}),
            }
        )
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
    cast_columns = {
        f.name: table.column(f.name).cast(f.type)
        if f.name in table.column_names
        else pa.nulls(rows, f.type)
        for f in schema
        if f.name != "_layout"
    }
    return pa.table({**cast_columns, "_layout": layout}, schema=schema)


def scan(stream: io.BufferedReader, name: str, rows: int = et.CHUNK_ROWS) -> Iterator[Trace]:
    """A Parquet trace in pieces; a plain table with a column `id` is taken for one, too."""

    def batches(file: pq.ParquetFile, names: list[str]) -> Iterator[pa.Table]:
        threads = is_large(file)
        for batch in file.iter_batches(batch_size=rows, columns=names, use_threads=threads):
            yield pa.Table.from_batches([batch])

    return _pieces(stream, name, batches)


def read(stream: io.BufferedReader, name: str) -> Trace:
    """The same in memory, read by row groups."""

    def groups(file: pq.ParquetFile, names: list[str]) -> Iterator[pa.Table]:
        threads = is_large(file)
        return (
            file.read_row_group(i, columns=names, use_threads=threads)
            for i in range(file.num_row_groups)
        )

    return Trace.concat(_pieces(stream, name, groups))


_Tables = Callable[[pq.ParquetFile, list[str]], Iterator[pa.Table]]


def _pieces(stream: io.BufferedReader, name: str, tables: _Tables) -> Iterator[Trace]:
    """The tables of a file as traces, checked."""
    try:
        source = _seekable(stream)
        file = _opened(source)
        layouts, metadata = _described(file, name)
        if {"arrival_s", "prompt", "output"} <= set(file.schema_arrow.names):
            raise TraceError(
                "a table of served requests, not a trace: read the run that it lies in, or give it to "
                "`chakra serve --requests`"
            )
        names = _columns_with_values(file, source, name)
        rows = 0
        for table in tables(file, names):
            rows += table.num_rows
            yield _piece(table, layouts, metadata)
        if (
            rows != file.metadata.num_rows
        ):  # Arrow stops in silence where a column has no more values
            raise TraceError(
                f"the file says that it has {file.metadata.num_rows:,} rows, and {rows:,} can be read; "
                "it is damaged: copy or convert it again"
            )
        if not rows:
            yield _piece(file.schema_arrow.empty_table().select(names), layouts, metadata)
    except TraceError as error:
        raise FormatError(str(error), path=name) from None
    except (pa.ArrowException, msgspec.MsgspecError, ValueError, TypeError, OSError) as error:
        raise FormatError(f"not a Parquet trace: {_one_line(error)}", path=name) from None


def _opened(source: Any) -> pq.ParquetFile:
    """The file, with names as a dictionary where it has names."""
    try:
        return parquet_file(source, read_dictionary=["name"])
    except KeyError:
        return parquet_file(source)


def _lacking(names: Sequence[str]) -> str:
    """Which column a table lacks that a trace's has; "" for none."""
    if "id" not in names:
        return "'id'"
    return "" if {"type", "name"} & set(names) or len(names) == 1 else "'type' or 'name'"


def other_table(path: Path) -> pa.Table | None:
    """The rows of a Parquet file that is no trace; None of a trace, and of any other file."""
    if path.suffix != ".parquet" or not path.is_file():
        return None
    try:
        file = parquet_file(str(path))
        return file.read() if _lacking(file.schema_arrow.names) else None
    except (pa.ArrowException, OSError):
        return None  # reading it as a trace says what is wrong


def _columns_with_values(file: pq.ParquetFile, source: Any, path: str) -> list[str]:
    """The columns to read: a node's own fields, and those that are not null throughout.

    A file has a column for every attribute of the vocabulary, and most traces use a third of them.
    """
    names = file.schema_arrow.names
    check_columns(names, path)
    if lacking := _lacking(names):
        raise TraceError(
            f"the table has no column {lacking}; a trace's table has one. `chakra query` asks any other "
            'table: "SELECT * FROM rows"'
        )
    if {"", columns.column_name("")} & set(names):
        raise TraceError("a column has no name; an attribute of a trace has one")
    unused = null_columns(source, _schema_columns(file)) - _ALWAYS
    return [n for n in names if n not in unused]


def _schema_columns(file: pq.ParquetFile) -> list[FooterColumn]:
    """All columns; those that are nested have no name of their own."""
    schema = file.schema
    leaves = (schema.column(i) for i in range(len(schema)))
    return [FooterColumn(c.name if c.path == c.name else None, c.physical_type) for c in leaves]


def _one_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _seekable(stream: io.BufferedReader) -> Any:
    """Parquet has its index at the end: a pipe must be read whole."""
    return stream if stream.seekable() else pa.BufferReader(stream.read())


def _described(file: pq.ParquetFile, name: str) -> tuple[Layouts | None, Metadata]:
    notes = file.metadata.metadata or {}
    raw = notes.get(_METADATA)
    if raw is None and _VERSION in notes:
        metadata = Metadata(None)
    else:
        metadata = Metadata.checked(base64.b64decode(raw or b"", validate=True), name)
    if _LAYOUTS not in notes:
        return None, metadata
    plain = msgspec.json.decode(notes[_LAYOUTS], type=list[_PlainLayout])
    for _, entries in plain:
        _check_entries(entries)
    return Layouts.from_plain(plain), metadata


def _check_entries(entries: list[tuple[str | None, int]]) -> None:
    names = [n for n, _ in entries if n is not None]
    if len(set(names)) != len(names):
        raise TraceError("a layout lists an attribute twice")
    for name, member in entries:
        if name is not None and member not in Member._value2member_map_:
            raise TraceError(f"a layout has {member} as the member of {name!r}")


def _piece(table: pa.Table, layouts: Layouts | None, metadata: Metadata) -> Trace:
    """A table as a trace. Nothing in it is trusted: columns are cast to their types, layouts checked.

    All pieces of a file have the same fields of a node, so that they are the same nodes however it is cut.
    """
    data = {
        c: columns.single(table.column(c))
        for c in table.column_names
        if c in columns.FIELD_TYPES or table.column(c).null_count < table.num_rows
    }
    _check_numbers(data.get("name"))
    _check_texts(data)
    if layouts is None:
        plain = {c: v for c, v in data.items() if not c.startswith("_")}
        return Trace.from_columns(plain, None, metadata)
    return _with_private(data, table.num_rows, layouts, metadata)


def _with_private(
    data: dict[str, pa.Array], rows: int, layouts: Layouts, metadata: Metadata
) -> Trace:
    """The trace with the layouts and raw bytes that the file has for it."""
    private = {
        c: columns.cast(data[c], kind, c) for c, kind in columns.PRIVATE_TYPES.items() if c in data
    }
    layout_column = private.pop("_layout", pa.nulls(rows, pa.int32()))
    numbers = layout_column.fill_null(-1).to_numpy(zero_copy_only=False)
    if len(numbers) and not (numbers.min() >= 0 and numbers.max() < len(layouts.items)):
        raise TraceError("a row refers to a layout that is not there; convert the trace again")
    plain = {c: v for c, v in data.items() if not c.startswith("_")}
    trace = Trace.with_layouts({**plain, **private}, numbers, layouts, metadata)
    _check_layouts(trace.nodes, layouts, numbers)
    _check_kept_bytes(trace)
    return trace


def _check_kept_bytes(trace: Trace) -> None:
    """Raises a TraceError unless an `.et` file of these rows would be read with the same bytes kept.

    They are written back as they are, so that what is wrong in them would show in other files alone.
    """
    kept = [c for c in columns.PRIVATE_TYPES if c in trace.table.column_names and c != "_layout"]
    if not kept:
        return
    has_any = [columns.single(trace.table.column(c)).is_valid() for c in kept]
    rows = np.flatnonzero(np.logical_or.reduce([h.to_numpy(zero_copy_only=False) for h in has_any]))
    attributes = {a for c in trace.table.column_names if (a := columns.attribute_name(c))}
    before = Trace(trace.table.take(rows), trace.layouts, trace.metadata)
    try:
        after = et.recast(before, attributes | set(by_name())).table
        same = all(_bytes_of(after, c) == _bytes_of(before.table, c) for c in columns.PRIVATE_TYPES)
    except (FormatError, TraceError):
        same = False
    if not same:
        raise TraceError(
            "bytes that the file keeps of a node are none of a node's; convert the trace again"
        )


def _bytes_of(table: pa.Table, column: str) -> list[bytes | None]:
    if column == "_layout" or column not in table.column_names:
        return [None] * table.num_rows
    return table.column(column).to_pylist()  # type: ignore[no-any-return]


def _check_texts(data: dict[str, pa.Array]) -> None:
    """Refuses text that is not UTF-8, which Arrow reads as it is and no other format can hold."""
    for name, values in data.items():
        texts = values.dictionary if pa.types.is_dictionary(values.type) else values
        kind = texts.type.value_type if pa.types.is_list(texts.type) else texts.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            try:
                texts.validate(full=True)
            except pa.ArrowInvalid:
                raise TraceError(
                    f"column {name!r} has text that is not UTF-8; write it as UTF-8"
                ) from None


def _check_numbers(names: pa.Array | None) -> None:
    """Names come as numbers into the file's dictionary, which Arrow takes as they are."""
    if names is None or not pa.types.is_dictionary(names.type):
        return
    bounds = pc.min_max(names.indices).as_py()
    if bounds["min"] is not None and not 0 <= bounds["min"] <= bounds["max"] < len(
        names.dictionary
    ):
        raise TraceError("a row refers to a name that is not there; convert the trace again")


def _check_layouts(table: pa.Table, layouts: Layouts, rows: I32) -> None:
    """Raises a TraceError unless each row has exactly its layout's attributes, in members that fit."""
    used = layouts.used(rows)[0]
    names = set(used.names())
    attributes = {a for c in table.column_names if (a := columns.attribute_name(c)) is not None}
    rows_with: dict[bytes, pa.Array] = {}  # by the layouts that have an attribute
    for name in sorted(names | attributes):
        column = columns.column_name(name)
        if column not in table.column_names:
            raise TraceError(f"a layout has {name!r}, for which there is no column")
        values = columns.single(table.column(column))
        has = layouts.members(name) != 0
        if has.tobytes() not in rows_with:
            rows_with[has.tobytes()] = pa.array(has[rows])
        if not values.is_valid().equals(rows_with[has.tobytes()]):
            raise TraceError(
                f"rows and layouts disagree about who has {name!r}; convert the trace again"
            )
        members = {m for item in used.items for n, m in item.entries if n == name}
        if not all(columns.stores(values.type, m) for m in members):
            raise TraceError(f"a layout's oneof member cannot hold the {values.type} of {name!r}")
