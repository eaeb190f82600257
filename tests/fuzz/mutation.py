"""Files of every form made hostile: what a file says is changed, or its bytes are."""

from __future__ import annotations

import contextlib
import csv
import gzip
import hashlib
import io
import json
import pickle
import re
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from fuzz.hostile import RAW, WHOLE, hostile, mutated_bytes, mutated_text, mutated_tree
from support.oracle import varint

Mutate = Callable[[Random, bytes], bytes]

# --- formats of text ----------------------------------------------------------------------------


def _through(read: Callable[[bytes], Any], write: Callable[[Any], bytes]) -> Mutate:
    """Mutates what a file says three times of four, its text or its bytes otherwise."""

    def mutate(rng: Random, data: bytes) -> bytes:
        way = rng.random()
        if way < 0.25:
            return mutated_bytes(rng, data) if way < 0.15 else mutated_text(rng, data)
        said = write(mutated_tree(rng, read(data)))
        return mutated_bytes(rng, said) if rng.random() < 0.05 else said

    return mutate


def _json_bytes(tree: Any) -> bytes:
    return json.dumps(tree).encode("utf-8", "surrogatepass")


def _yaml_bytes(tree: Any) -> bytes:
    try:
        return yaml.dump(tree, Dumper=_DUMPER, sort_keys=False).encode("utf-8", "surrogatepass")
    except (yaml.YAMLError, UnicodeError, RecursionError):
        return _json_bytes(tree)


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

mutate_json = _through(json.loads, _json_bytes)
mutate_yaml = _through(lambda data: yaml.load(data, _LOADER), _yaml_bytes)
mutate_json_lines = _through(
    lambda data: [json.loads(line) for line in data.splitlines()],
    lambda tree: (
        b"\n".join(_json_bytes(t) for t in tree) if isinstance(tree, list) else _json_bytes(tree)
    ),
)


def _csv_bytes(tree: Any) -> bytes:
    text = io.StringIO()
    rows = tree if isinstance(tree, list) else [[tree]]
    writer = csv.writer(text)
    for row in rows:
        writer.writerow(row if isinstance(row, list) else [row])
    return text.getvalue().encode("utf-8", "surrogatepass")


mutate_csv = _through(
    lambda data: list(csv.reader(io.StringIO(data.decode()))), lambda t: _csv_bytes(t)
)


def mutate_words(rng: Random, data: bytes) -> bytes:
    """Text of words between spaces and quotes (logs, XML, programs): words replaced, lines moved."""
    if rng.random() < 0.3:
        return mutated_bytes(rng, data)
    words = re.split(rb"([\s\"<>=,(){}\[\]]+)", data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(words))
        way = rng.randrange(4)
        if way < 2:
            said = rng.choice(RAW) if rng.random() < 0.1 else str(hostile(rng))[:2000]
            words[at] = said.encode("utf-8", "surrogatepass")
        elif way == 2:
            words[at] = rng.choice(words)
        else:
            del words[at : at + rng.choice((1, 2, 9))]
            words = words or [b""]
    return b"".join(words)


_MOST_XML = 4 << 20


def _xml_tree(data: bytes) -> Any:
    """An element as its tag, its attributes, its text and its children."""

    def tree(element: ElementTree.Element) -> dict[str, Any]:
        inside = [tree(child) for child in element]
        return {"tag": element.tag, **element.attrib, "": element.text, "inside": inside}

    return tree(ElementTree.fromstring(data))


def _xml_bytes(tree: Any) -> bytes:
    """An element again, cut where lists of lists became very long; what became no element is text."""
    out = bytearray()
    for part in _xml_parts(tree):
        out += part
        if len(out) > _MOST_XML:
            break
    return bytes(out)


def _xml_parts(tree: Any) -> Iterator[bytes]:
    if not isinstance(tree, dict):
        yield _escaped(tree)
        return
    tag = re.sub(r"\W", "", str(tree.get("tag", "x")))[:99] or "x"
    inside = tree.get("inside")
    said = {k: v for k, v in tree.items() if k not in ("tag", "", "inside")}
    names = {re.sub(r"^\d|[^\w-]", "", str(k))[:99] or "a": _escaped(v) for k, v in said.items()}
    yield f"<{tag}".encode()
    yield from (b' %s="%s"' % (k.encode("ascii", "replace"), v) for k, v in names.items())
    yield b">" + _escaped(tree.get("") or "")
    for child in inside if isinstance(inside, list) else [inside]:
        yield from _xml_parts(child)
    yield f"</{tag}>".encode()


def _escaped(value: Any) -> bytes:
    text = str("" if value is None else value)[:80_000]
    legal = "".join(c for c in text if c in "\t\n" or (c >= " " and not "\ud800" <= c <= "\udfff"))
    return escape(legal, {'"': "&quot;"}).encode()


mutate_xml = _through(_xml_tree, _xml_bytes)

# --- binary formats -----------------------------------------------------------------------------

mutate_pickle = _through(pickle.loads, lambda tree: pickle.dumps(tree, protocol=2))


def mutate_parquet(rng: Random, data: bytes) -> bytes:
    """Columns of a table replaced, retyped, renamed, dropped; rows moved; cells hostile."""
    if rng.random() < 0.25:
        return mutated_bytes(rng, data)
    # In one thread: one that still holds this memory when the process ends would abort it.
    table = pq.ParquetFile(io.BytesIO(data), pre_buffer=False).read(use_threads=False)
    for _ in range(rng.choice((1, 1, 2, 3))):
        if table.num_columns:
            table = _turned_table(rng, table, rng.randrange(table.num_columns))
    out = io.BytesIO()
    try:
        pq.write_table(table, out)
    except pa.ArrowException:  # there are tables that Parquet cannot hold
        return mutated_bytes(rng, data)
    return out.getvalue()


def _turned_table(rng: Random, table: pa.Table, at: int) -> pa.Table:
    name, column, rows = table.column_names[at], table.column(at), table.num_rows
    other = rng.randrange(table.num_columns)
    way = rng.randrange(16)
    if way == 0:
        return table.remove_column(at)
    if way == 1:
        return table.set_column(at, rng.choice((f"{name}x", "", table.column_names[other])), column)
    if way == 2:
        return table.slice(0, rng.randrange(rows + 1))
    if way == 3:
        return table.take(
            pa.array([rng.randrange(rows) for _ in range(rows and 2 * rows)], "int64")
        )
    if way == 4:
        return pa.concat_tables([table] * rng.choice((2, 2, 50)))
    if way == 5:
        return table.set_column(at, name, table.column(other))
    if way == 6:
        return table.append_column(name, column)
    try:
        return table.set_column(at, name, _turned_column(rng, column))
    except (pa.ArrowException, OverflowError, TypeError, ValueError, UnicodeError, RecursionError):
        return table  # there are values that Arrow cannot hold


_TYPES: tuple[pa.DataType, ...] = (
    pa.int8(), pa.int32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_(), pa.string(),
    pa.large_string(), pa.binary(), pa.date32(), pa.timestamp("ns"), pa.null(), pa.list_(pa.int64()),
    pa.decimal128(38, 9), pa.dictionary(pa.int32(), pa.string()),
)  # fmt: skip


def _turned_column(rng: Random, column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    way = rng.randrange(8)
    if way == 0:
        return column.cast(rng.choice(_TYPES), safe=False)
    values = column.to_pylist()
    for _ in range(rng.choice((1, 1, len(values)))):
        if values:
            values[rng.randrange(len(values))] = hostile(rng)
    if way == 1:
        values = [hostile(rng)] * len(values)
    if way < 4:
        return pa.array([_text(v) for v in values])
    # Arrow aborts the process over a map whose keys are null.
    return pa.array(values, None if way < 5 or pa.types.is_map(column.type) else column.type)


def _text(value: Any) -> str:
    return str(value)[:99].encode("utf-8", "replace").decode()


def mutate_sqlite(rng: Random, data: bytes) -> bytes:
    """Cells of tables replaced, tables and columns renamed or dropped."""
    if rng.random() < 0.25:
        return mutated_bytes(rng, data)
    with tempfile.TemporaryDirectory(dir=_SHARED) as folder:
        path = Path(folder, "db")
        path.write_bytes(data)
        with sqlite3.connect(path) as to:
            for _ in range(rng.choice((1, 1, 2, 4))):
                with contextlib.suppress(sqlite3.Error):  # keys, and columns that a view names
                    _turn_table(rng, to)
        to.close()
        return path.read_bytes()


_SHARED = "/dev/shm" if Path("/dev/shm").is_dir() else None


def _turn_table(rng: Random, to: sqlite3.Connection) -> None:
    tables = [name for (name,) in to.execute("select name from sqlite_master where type='table'")]
    table = rng.choice(tables)
    columns = [row[1] for row in to.execute(f'pragma table_info("{table}")')]
    column = rng.choice(columns)
    way = rng.randrange(13)
    if way == 0 and len(tables) > 1:
        to.execute(f'drop table "{table}"')
    elif way == 12:
        to.execute(f'update "{table}" set "{column}" = "{rng.choice(columns)}"')
    elif way == 1 and len(columns) > 1:
        to.execute(f'alter table "{table}" rename column "{column}" to x{rng.randrange(99)}')
    elif way == 2:
        to.execute(f'delete from "{table}" where rowid % 2 = 0')
    else:
        value = hostile(rng)
        if (isinstance(value, int) and not -(2**63) <= value < 2**63) or isinstance(
            value, list | dict
        ):
            value = str(value)[:999]
        if isinstance(value, str):
            value = value.encode("utf-8", "replace").decode()
        where = "1" if way < 4 else f"rowid = {1 + rng.randrange(9)}"
        to.execute(f'update "{table}" set "{column}" = ? where {where}', (value,))


def mutate_protobuf(rng: Random, data: bytes) -> bytes:
    """Fields of messages on the wire replaced, dropped, doubled or cut, at any depth."""
    if rng.random() < 0.25:
        return mutated_bytes(rng, data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        data = _turned_message(rng, data)
    return data


def _turned_message(rng: Random, data: bytes) -> bytes:
    fields = wire_fields(data)
    if not fields:
        return mutated_bytes(rng, data)
    at = rng.randrange(len(fields))
    begin, end, tag, value = fields[at]
    way = rng.randrange(7)
    if way == 0:
        new = b""
    elif way == 1:
        new = data[begin:end] * rng.choice((2, 2, 300))
    elif way == 6:  # what another field holds
        other = rng.choice(fields)
        new = data[other[0] : other[1]]
    elif way == 2 or isinstance(value, int):
        new = varint(tag & ~7) + varint(rng.choice(WHOLE) % 2**64)
    elif way == 3:
        body = str(hostile(rng))[:3000].encode("utf-8", "surrogatepass")
        new = varint(tag) + varint(len(body)) + body
    else:
        inner = _turned_message(rng, value) if value else b"\x08\x01"
        new = varint(tag) + varint(len(inner)) + inner
    return data[:begin] + new + data[end:]


def wire_fields(data: bytes) -> list[tuple[int, int, int, int | bytes]]:
    """(begin, end, tag, value) of every field; nothing if it is no message."""
    out: list[tuple[int, int, int, int | bytes]] = []
    at = 0
    while at < len(data):
        begin = at
        tag, at = _read_varint(data, at)
        if at < 0 or not 0 < tag >> 3 < 2**20:
            return []
        value: int | bytes
        if tag & 7 == 0:
            value, at = _read_varint(data, at)
            if at < 0:
                return []
        elif tag & 7 in (1, 5):
            width = 8 if tag & 7 == 1 else 4
            value, at = data[at : at + width], at + width
        elif tag & 7 == 2:
            length, at = _read_varint(data, at)
            if at < 0 or at + length > len(data):
                return []
            value, at = data[at : at + length], at + length
        else:
            return []
        out.append((begin, at, tag, value))
    return out


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at
    return 0, -1


_INSIDE: dict[str, Mutate] = {
    ".json": mutate_json,
    ".parquet": mutate_parquet,
    ".et": mutate_protobuf,
    ".zst": mutated_bytes,
}


def mutate_bundle(rng: Random, data: bytes) -> bytes:
    """An entry of a bundle changed, with checksums that say it is right; sometimes the archive itself."""
    if rng.random() < 0.25:
        return mutated_bytes(rng, data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = {info.filename: archive.read(info) for info in archive.infolist()}
    name = rng.choice(list(entries))
    entries[name] = _INSIDE.get(Path(name).suffix, mutated_bytes)(rng, entries[name])
    if name != "bundle.json":
        said = json.loads(entries["bundle.json"])
        for member in said["members"]:
            if member["name"] == name:
                member["bytes"] = len(entries[name])
                member["sha256"] = hashlib.sha256(entries[name]).hexdigest()
        entries["bundle.json"] = json.dumps(said).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for entry, content in entries.items():
            archive.writestr(entry, content)
    return out.getvalue()


def gzipped(inner: Mutate) -> Mutate:
    """A file packed with gzip: what is inside changes, sometimes the packing itself."""

    def mutate(rng: Random, data: bytes) -> bytes:
        if rng.random() < 0.1:
            return mutated_bytes(rng, data)
        return gzip.compress(inner(rng, gzip.decompress(data)), 1)

    return mutate
