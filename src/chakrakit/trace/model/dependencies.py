"""Dependencies between their two shapes: lists of ids in columns, and edges between rows.

`data_deps` and `ctrl_deps` hold ids as the file has them. What each edge is (kind, form, lag) is in the
columns `edge_kinds` and `edge_lags_ns`, aligned with a row's data_deps followed by its ctrl_deps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chakrakit.arrays import I8, I32, I64, U8, U64, Mask
from chakrakit.errors import TraceError
from chakrakit.trace.model.edges import EdgeForm, EdgeKind, Edges

KIND_BITS = 0x1F
FORM_SHIFT = 5


def resolve(ids: U64, wanted: U64) -> I32:
    """The row of each wanted id, -1 where there is none; of equal ids the first row counts."""
    n = len(ids)
    if n == 0 or len(wanted) == 0:
        return np.full(len(wanted), -1, np.int32)
    if int(ids[0]) + n - 1 == int(ids[-1]) and (ids[1:] > ids[:-1]).all():
        offset = wanted - ids[:1]  # wraps for smaller ids, which then are out of range
        return np.where(offset < n, offset, np.uint64(2**32 - 1)).astype(np.uint32).view(np.int32)
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    place = np.searchsorted(ordered, wanted)
    place[place == n] = 0
    rows = np.where(ordered[place] == wanted, order[place], -1)
    return rows.astype(np.int32)


@dataclass(frozen=True)
class Dependencies:
    """All entries of both lists, flat: data entries of all rows first, then ctrl entries."""

    ids: U64
    dst: I32
    ctrl: Mask
    slot: I64
    """The entry's place within its row: data_deps first, then ctrl_deps."""

    @classmethod
    def of(cls, table: pa.Table) -> Dependencies:
        """From a table's two list columns."""
        data, data_sizes = _lists(table.column("data_deps"))
        ctrl, ctrl_sizes = _lists(table.column("ctrl_deps"))
        rows = np.arange(table.num_rows, dtype=np.int32)
        slots = (_positions(data_sizes), _positions(ctrl_sizes) + np.repeat(data_sizes, ctrl_sizes))
        return cls(
            np.concatenate([data, ctrl]),
            np.concatenate([np.repeat(rows, data_sizes), np.repeat(rows, ctrl_sizes)]),
            np.repeat([False, True], [len(data), len(ctrl)]),
            np.concatenate(slots),
        )


def _lists(column: pa.ChunkedArray) -> tuple[U64, I64]:
    """Flattened values and the length of each list."""
    values = [c.flatten().to_numpy(zero_copy_only=False) for c in column.chunks]
    sizes = [c.value_lengths().to_numpy(zero_copy_only=False) for c in column.chunks]
    if not values:
        return np.zeros(0, np.uint64), np.zeros(0, np.int64)
    return np.concatenate(values).astype(np.uint64, copy=False), np.concatenate(sizes).astype(
        np.int64
    )


def _positions(sizes: I64) -> I64:
    """0, 1, … within each list."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)


def edge_codes(table: pa.Table, deps: Dependencies) -> tuple[U8, I64]:
    """Kind-and-form byte and lag of every entry, with defaults where the file does not say."""
    codes = np.where(deps.ctrl, np.uint8(EdgeKind.CTRL), np.uint8(EdgeKind.DATA))
    lags = np.zeros(len(codes), np.int64)
    counts = np.bincount(deps.dst, minlength=table.num_rows)
    if "edge_kinds" in table.column_names:
        column = table.column("edge_kinds").combine_chunks()
        starts, sizes = _extents(column)
        text = np.frombuffer((column.buffers()[2] if len(column) else None) or b"", np.uint8)
        _fill(codes, text, starts, sizes == counts, deps)
    if "edge_lags_ns" in table.column_names:
        column = table.column("edge_lags_ns").combine_chunks()
        starts, sizes = _extents(column)
        _fill(lags, column.values.to_numpy(zero_copy_only=False), starts, sizes == counts, deps)
    return codes, lags


def edge_columns_that_fit(table: pa.Table, deps: Dependencies, column: str) -> Mask:
    """For each row, whether this column holds as many entries as the row has dependencies."""
    if column not in table.column_names:
        return np.zeros(table.num_rows, np.bool_)
    _, sizes = _extents(table.column(column).combine_chunks())
    fits: Mask = sizes == np.bincount(deps.dst, minlength=table.num_rows)
    return fits


def edge_columns_that_mean_something(table: pa.Table, column: str) -> Mask:
    """For each row, whether this column holds one entry per dependency, and kinds that are known."""
    deps = Dependencies.of(table)
    fits = edge_columns_that_fit(table, deps, column)
    if column == "edge_kinds":
        codes, _ = edge_codes(table, deps)
        fits[deps.dst[_is_unknown(codes)]] = False
    return fits


def _is_unknown(codes: U8) -> Mask:
    kind, form = codes & KIND_BITS, codes >> FORM_SHIFT
    return np.asarray((kind > max(EdgeKind)) | (form > max(EdgeForm)))


def _extents(column: pa.Array) -> tuple[I64, I64]:
    """Start and length of each value; -1 length for null."""
    if len(column) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    whole = np.frombuffer(column.buffers()[1], np.int32)
    # A slice keeps its parent's buffers.
    offsets = whole[column.offset : column.offset + len(column) + 1].astype(np.int64)
    sizes = np.diff(offsets)
    sizes[~column.is_valid().to_numpy(zero_copy_only=False)] = -1
    return offsets[:-1], sizes


def _fill(
    out: NDArray[np.generic],
    values: NDArray[np.generic],
    starts: I64,
    fits: Mask,
    deps: Dependencies,
) -> None:
    """Takes a row's values for its entries where there are as many as entries."""
    known = fits[deps.dst]
    out[known] = values[starts[deps.dst[known]] + deps.slot[known]]


@dataclass(frozen=True)
class ResolvedDependencies:
    """A table's entries, with the row each one names (-1: no node has that id) and what it is."""

    deps: Dependencies
    src: I32
    codes: U8
    lags: I64

    @classmethod
    def of(cls, table: pa.Table, ids: U64) -> ResolvedDependencies:
        """From a table whose rows have these ids."""
        deps = Dependencies.of(table)
        return cls(deps, resolve(ids, deps.ids), *edge_codes(table, deps))

    @property
    def dangling(self) -> I64:
        """Which entries name no node."""
        return np.flatnonzero(self.src < 0)

    def edges(self) -> Edges:
        """Edges between rows, sorted by target; within a row data_deps come first."""
        known = np.flatnonzero(self.src >= 0)
        order = known[np.argsort(self.deps.dst[known], kind="stable")]
        codes = self.codes[order]
        return Edges(
            self.src[order],
            self.deps.dst[order],
            *_kinds_and_forms(codes),
            self.lags[order],
            self.deps.ctrl[order],
        )

    def selected(self, new_row: I32, rows: int) -> dict[str, pa.Array | None]:
        """The columns after a selection (old row → new row or -1); empty if no row loses an entry.

        An entry that dangled still does, with its kind; one whose node is left out is dropped.
        """
        kept = new_row[self.deps.dst] >= 0
        inside = (self.src < 0) | (new_row[self.src] >= 0)
        if inside[kept].all():
            return {}
        left = kept & inside
        dst = new_row[self.deps.dst[left]]
        return columns_of(
            self.deps.ids[left], dst, self.deps.ctrl[left], self.codes[left], self.lags[left], rows
        )


def _kinds_and_forms(codes: U8) -> tuple[I8, I8]:
    if _is_unknown(codes).any():
        raise TraceError(
            "edge_kinds holds a kind or form this version does not know; upgrade chakrakit, or drop "
            "the attribute to treat all dependencies as finish→start"
        )
    return (codes & KIND_BITS).astype(np.int8), (codes >> FORM_SHIFT).astype(np.int8)


def columns_from(ids: U64, edges: Edges) -> dict[str, pa.Array | None]:
    """The four columns that say these edges; None for one that is not needed."""
    codes = edges.kind.astype(np.uint8) | edges.form.astype(np.uint8) << np.uint8(FORM_SHIFT)
    return columns_of(ids[edges.src], edges.dst, edges.ctrl, codes, edges.lag, len(ids))


def columns_of(
    ids: U64, dst: I32, ctrl: Mask, codes: U8, lags: I64, rows: int
) -> dict[str, pa.Array | None]:
    """The four columns that say these entries; None for one that is not needed."""
    order = np.lexsort((ctrl, dst))
    ids, dst, ctrl = ids[order], dst[order], ctrl[order]
    codes, lags = codes[order], lags[order]
    plain = np.where(ctrl, np.uint8(EdgeKind.CTRL), np.uint8(EdgeKind.DATA))
    special = np.bincount(dst[codes != plain], minlength=rows) > 0
    lagged = np.bincount(dst[lags != 0], minlength=rows) > 0
    return {
        "data_deps": _id_lists(ids[~ctrl], dst[~ctrl], rows),
        "ctrl_deps": _id_lists(ids[ctrl], dst[ctrl], rows),
        "edge_kinds": _kinds_column(codes, dst, special) if special.any() else None,
        "edge_lags_ns": _lags_column(lags, dst, lagged) if lagged.any() else None,
    }


def _offsets(dst: I32, rows: int) -> I32:
    counts = np.bincount(dst, minlength=rows)
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int32)


def _id_lists(ids: U64, dst: I32, rows: int) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(_offsets(dst, rows)), pa.array(ids))


def _kinds_column(codes: U8, dst: I32, present: Mask) -> pa.Array:
    codes, dst = codes[present[dst]], dst[present[dst]]
    offsets = _offsets(dst, len(present))
    bitmap = np.packbits(present, bitorder="little")
    buffers = [pa.py_buffer(b) for b in (bitmap, offsets, np.ascontiguousarray(codes))]
    return pa.Array.from_buffers(pa.binary(), len(present), buffers)


def _lags_column(lags: I64, dst: I32, present: Mask) -> pa.Array:
    lags, dst = lags[present[dst]], dst[present[dst]]
    return pa.ListArray.from_arrays(
        pa.array(_offsets(dst, len(present))), pa.array(lags), mask=pa.array(~present)
    )
