"""Edges between rows: their kinds and forms, and how columns store them as lists of ids.

Also the two checks every array of rows or times passes before it reaches the core.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, DTypeLike, NDArray

from chakrakit.arrays import I8, I32, I64, U8, U64, Mask
from chakrakit.errors import TraceError

MAX_ROWS = 2**31 - 2
"""Most rows, and most edges, one graph can have: their numbers are 32 bits wide."""


class EdgeForm(IntEnum):
    """Which event of the source holds back which event of the target."""

    FINISH_START = 0
    START_START = 1
    FINISH_FINISH = 2


class EdgeKind(IntEnum):
    """Why an edge exists."""

    DATA = 0
    CTRL = 1
    TENSOR = 2
    LAUNCH = 3
    STREAM = 4
    THREAD = 5
    EVENT = 6
    SYNC = 7
    CALL = 8
    AUTOGRAD = 9
    INFERRED = 10

    @property
    def usual_form(self) -> EdgeForm:
        """The form edges of this kind have unless they say otherwise."""
        if self in (EdgeKind.LAUNCH, EdgeKind.CALL):
            return EdgeForm.START_START
        return EdgeForm.FINISH_FINISH if self is EdgeKind.SYNC else EdgeForm.FINISH_START

    @property
    def usual_ctrl(self) -> bool:
        """Whether edges of this kind are written to `ctrl_deps` unless they say otherwise."""
        return self in (EdgeKind.CTRL, EdgeKind.THREAD, EdgeKind.CALL)


_USUAL_FORM = np.array([kind.usual_form for kind in EdgeKind], np.int8)
_USUAL_CTRL = np.array([kind.usual_ctrl for kind in EdgeKind], np.bool_)
_DTYPES: dict[str, type[np.generic]] = {
    "src": np.int32,
    "dst": np.int32,
    "kind": np.int8,
    "form": np.int8,
    "lag": np.int64,
    "ctrl": np.bool_,
}

Scalar = TypeVar("Scalar", bound=np.generic)


def column(values: ArrayLike, dtype: type[Scalar], name: str) -> NDArray[Scalar]:
    """Values as a contiguous one-dimensional array of `dtype`, or a TraceError naming `name`.

    Nothing is rounded or wrapped: floats are refused, and so is a number `dtype` cannot hold.
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise TraceError(f"{name} has {array.ndim} dimensions; give a one-dimensional array")
    if array.size == 0:
        return np.empty(0, dtype)
    if array.dtype != dtype:
        _check_fits(array, np.dtype(dtype), name)
    return np.ascontiguousarray(array, dtype)


def _check_fits(array: NDArray[Any], dtype: np.dtype[Any], name: str) -> None:
    if array.dtype.kind not in ("b" if dtype.kind == "b" else "iu"):
        raise TraceError(f"{name} holds {array.dtype}; convert it with .astype(numpy.{dtype})")
    if dtype.kind == "b":
        return
    limits = np.iinfo(dtype)
    bad = np.flatnonzero((array < limits.min) | (array > limits.max))
    if bad.size:
        raise TraceError(f"{name}[{bad[0]}] is {array[bad[0]]}, which does not fit {dtype}")


def check_range(array: NDArray[Any], low: int, high: int, name: str, cure: str) -> None:
    """Raise a TraceError, ending in `cure`, unless every value lies in [low, high)."""
    if array.size == 0 or (array.min() >= low and array.max() < high):
        return
    at = int(np.flatnonzero((array < low) | (array >= high))[0])
    raise TraceError(f"{name}[{at}] is {array[at]}, not in {low}..{high - 1}; {cure}")


@dataclass(frozen=True, eq=False, repr=False)
class Edges:
    """Edges as parallel arrays: entry i of each array belongs to edge i.

    `src` and `dst` are rows (int32), `kind` and `form` are codes (int8) of EdgeKind and EdgeForm,
    `lag` is in ns (int64, may be negative) and `ctrl` says which edges belong to `ctrl_deps`.
    The dtypes are exact; `Edges.of` converts and fills in what is left out. How many rows there
    are is not known here, so code that uses the edges with rows checks the upper end.
    """

    src: I32
    dst: I32
    kind: I8
    form: I8
    lag: I64
    ctrl: Mask

    def __post_init__(self) -> None:
        for name, dtype in _DTYPES.items():
            self._check_column(name, getattr(self, name), dtype)
        cure = "see chakrakit.trace.model.edges for the codes"
        check_range(self.kind, 0, len(EdgeKind), "Edges.kind", cure)
        check_range(self.form, 0, len(EdgeForm), "Edges.form", cure)
        for name in ("src", "dst"):
            check_range(getattr(self, name), 0, MAX_ROWS, f"Edges.{name}", "rows count from 0")

    def __repr__(self) -> str:
        counts = np.bincount(self.kind, minlength=len(EdgeKind))
        kinds = [f"{n:,} {EdgeKind(k).name.lower()}" for k, n in enumerate(counts.tolist()) if n]
        return f"Edges({len(self):,}: {', '.join(kinds)})" if kinds else "Edges(0)"

    def _check_column(self, name: str, array: NDArray[Any], dtype: DTypeLike) -> None:
        cure = "Edges.of(...) converts and broadcasts"
        if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != 1:
            actual = getattr(array, "dtype", type(array).__name__)
            raise TraceError(
                f"Edges.{name} must be an array of {np.dtype(dtype)}, got {actual}; {cure}"
            )
        if len(array) != len(self.src):
            raise TraceError(
                f"Edges.{name} has {len(array):,} entries and Edges.src {len(self.src):,}; {cure}"
            )

    @classmethod
    def of(
        cls,
        src: ArrayLike,
        dst: ArrayLike,
        kind: ArrayLike = EdgeKind.DATA,
        form: ArrayLike | None = None,
        lag: ArrayLike = 0,
        ctrl: ArrayLike | None = None,
    ) -> Edges:
        """Make edges from whatever numpy can read; a single value counts for all edges.

        `form` and `ctrl` are by default what the kind usually has.
        """
        rows = column(src, np.int32, "src")
        kinds = _spread(kind, len(rows), np.int8, "kind")
        check_range(kinds, 0, len(EdgeKind), "kind", "see EdgeKind for the codes")
        return cls(
            rows,
            column(dst, np.int32, "dst"),
            kinds,
            _USUAL_FORM[kinds] if form is None else _spread(form, len(rows), np.int8, "form"),
            _spread(lag, len(rows), np.int64, "lag"),
            _USUAL_CTRL[kinds] if ctrl is None else _spread(ctrl, len(rows), np.bool_, "ctrl"),
        )

    @classmethod
    def unchecked(cls, *columns: NDArray[Any]) -> Edges:
        """Edges from parts of others that were checked."""
        edges = object.__new__(cls)
        for field, values in zip(fields(cls), columns, strict=True):
            object.__setattr__(edges, field.name, values)
        return edges

    @classmethod
    def empty(cls) -> Edges:
        """No edges."""
        return cls.of([], [])

    @classmethod
    def concat(cls, parts: Sequence[Edges]) -> Edges:
        """All edges of `parts`, in that order."""
        if not parts:
            return cls.empty()
        return cls(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)))

    def where(self, mask: ArrayLike) -> Edges:
        """The edges for which the mask (one bool per edge) is true, in order."""
        selected = column(mask, np.bool_, "mask")
        if len(selected) != len(self):
            raise TraceError(f"mask has {len(selected):,} entries for {len(self):,} edges")
        return Edges(*(getattr(self, f.name)[selected] for f in fields(self)))

    def without(self, kinds: Iterable[EdgeKind] | EdgeKind) -> Edges:
        """The edges of all other kinds, in order."""
        listed = [kinds] if isinstance(kinds, EdgeKind) else list(kinds)
        return self.where(~np.isin(self.kind, np.array(listed, np.int8)))

    def __len__(self) -> int:
        return len(self.src)


def _spread(values: ArrayLike, count: int, dtype: type[Scalar], name: str) -> NDArray[Scalar]:
    array = np.asarray(values)
    return column(np.full(count, array[()]) if array.ndim == 0 else array, dtype, name)


# Dependencies between their two shapes: lists of ids in columns, and edges between rows.
#
# `data_deps` and `ctrl_deps` hold ids as the file has them. What each edge is (kind, form, lag) is in the
# columns `edge_kinds` and `edge_lags_ns`, aligned with a row's data_deps followed by its ctrl_deps.


KIND_BITS, FORM_SHIFT = 0x1F, 5
"""A byte of `edge_kinds` has the kind in its low five bits and the form in its high three."""


def resolve(ids: U64, named_ids: U64) -> I32:
    """The row of each of `named_ids`, -1 where no node has it; of equal ids the first row counts."""
    n = len(ids)
    if n == 0 or len(named_ids) == 0:
        return np.full(len(named_ids), -1, np.int32)
    if int(ids[0]) + n - 1 == int(ids[-1]) and (ids[1:] > ids[:-1]).all():
        offset = named_ids - ids[:1]  # wraps for smaller ids, which then are out of range
        return np.where(offset < n, offset, np.uint64(2**32 - 1)).astype(np.uint32).view(np.int32)
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    place = np.searchsorted(ordered, named_ids)
    place[place == n] = 0
    rows = np.where(ordered[place] == named_ids, order[place], -1)
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


_LAST_KIND, _LAST_FORM = int(max(EdgeKind)), int(max(EdgeForm))


def _is_unknown(codes: U8) -> Mask:
    return np.asarray(((codes & KIND_BITS) > _LAST_KIND) | ((codes >> FORM_SHIFT) > _LAST_FORM))


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
    """Fills `out` with the rows' values, one per entry, for the rows that have as many values as entries."""
    fitting = fits[deps.dst]
    out[fitting] = values[starts[deps.dst[fitting]] + deps.slot[fitting]]


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
        resolved = np.flatnonzero(self.src >= 0)
        order = resolved[np.argsort(self.deps.dst[resolved], kind="stable")]
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
        row_stays = new_row[self.deps.dst] >= 0
        inside = (self.src < 0) | (new_row[self.src] >= 0)
        if inside[row_stays].all():
            return {}
        entry_stays = row_stays & inside
        dst = new_row[self.deps.dst[entry_stays]]
        return columns_of(
            self.deps.ids[entry_stays],
            dst,
            self.deps.ctrl[entry_stays],
            self.codes[entry_stays],
            self.lags[entry_stays],
            rows,
        )


def _kinds_and_forms(codes: U8) -> tuple[I8, I8]:
    if _is_unknown(codes).any():
        raise TraceError(
            "edge_kinds holds a kind or form this version does not know; upgrade chakrakit, or drop "
            "the attribute to treat all dependencies as finish→start"
        )
    return (codes & KIND_BITS).astype(np.int8), (codes >> FORM_SHIFT).astype(np.int8)


def columns_from(ids: U64, edges: Edges) -> dict[str, pa.Array | None]:
    """The four columns that store these edges; None for one that is not needed."""
    codes = edges.kind.astype(np.uint8) | edges.form.astype(np.uint8) << np.uint8(FORM_SHIFT)
    return columns_of(ids[edges.src], edges.dst, edges.ctrl, codes, edges.lag, len(ids))


def columns_of(
    ids: U64, dst: I32, ctrl: Mask, codes: U8, lags: I64, rows: int
) -> dict[str, pa.Array | None]:
    """The four columns that store these entries; None for one that is not needed."""
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
