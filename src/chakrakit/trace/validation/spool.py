"""What a check over a stream may need again: kept in memory while it is little, else in a temporary file."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chakrakit.arrays import I64, U8, U64
from chakrakit.trace.model import Trace
from chakrakit.trace.validation.findings import shortened, shown

_IN_MEMORY = 64 << 20
_LONG = 400
"""Bytes: shorter names are kept as they are."""


@dataclass(frozen=True)
class Entries:
    """Dependencies of one piece, in rows of the whole trace; the form's top bit is for control."""

    src: U64
    dst: I64
    form: U8


class Spool:
    """Pieces of a trace, reduced to ids, names and dependencies; written once, read when needed.

    17 bytes per dependency, 12 per node and the distinct names of each piece. The file goes when the
    spool does.
    """

    def __init__(self) -> None:
        # Lives as long as this object, so no `with`.
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115
        self._pieces: list[tuple[int, int, int, int, int]] = []
        self.rows = 0

    def add(self, piece: Trace, entries: Entries) -> None:
        """Appends a piece."""
        place = self._file.tell()
        names = _packed_names(piece.names)
        for array in (piece.ids, entries.src, entries.dst, entries.form):
            self._file.write(np.ascontiguousarray(array).data.cast("B") if len(array) else b"")
        self._file.write(names)
        self._pieces.append((self.rows, len(piece), len(entries.src), place, len(names)))
        self.rows += len(piece)

    def ids(self) -> Iterator[tuple[int, U64]]:
        """(first row, ids) of each piece."""
        for first, rows, _, place, _ in self._pieces:
            self._file.seek(place)
            yield first, np.frombuffer(self._file.read(8 * rows), np.uint64)

    def entries(self) -> Iterator[Entries]:
        """The dependencies of each piece."""
        for _, rows, count, place, _ in self._pieces:
            self._file.seek(place + 8 * rows)
            src = np.frombuffer(self._file.read(8 * count), np.uint64)
            dst = np.frombuffer(self._file.read(8 * count), np.int64)
            yield Entries(src, dst, np.frombuffer(self._file.read(count), np.uint8))

    def nodes(self, rows: list[int]) -> dict[int, tuple[int, str]]:
        """Id and name (safe to print) of some rows."""
        found: dict[int, tuple[int, str]] = {}
        for first, count, edges, place, size in self._pieces:
            here = [r for r in rows if first <= r < first + count]
            if not here:
                continue
            self._file.seek(place)
            ids = np.frombuffer(self._file.read(8 * count), np.uint64)
            self._file.seek(place + 8 * count + 17 * edges)
            names = pa.ipc.open_stream(self._file.read(size)).read_all().column(0)
            for row in here:
                found[row] = int(ids[row - first]), shown(names[row - first].as_py() or "")
        return found


def _packed_names(names: pa.ChunkedArray) -> bytes:
    """Names with their middles cut out, since only some are ever shown, as an Arrow stream."""
    out = io.BytesIO()
    column = short_names(names)
    with pa.ipc.new_stream(out, pa.schema([("name", column.type)])) as writer:
        writer.write_table(pa.table({"name": column}))
    return out.getvalue()


def short_names(names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Names without the middles of long ones, in one dictionary."""
    parts = [_shortened(chunk) for chunk in names.chunks]
    return pa.chunked_array(parts, names.type).unify_dictionaries()


def _shortened(chunk: pa.DictionaryArray) -> pa.DictionaryArray:
    names = chunk.dictionary
    if len(names) and pc.max(pc.binary_length(names)).as_py() > _LONG:
        names = pa.array([shortened(name) for name in names.to_pylist()], names.type)
    return pa.DictionaryArray.from_arrays(chunk.indices, names, safe=False)
