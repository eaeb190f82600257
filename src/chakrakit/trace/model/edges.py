"""Edges between rows: their kinds, their forms, and the columns that hold them.

Also the two checks every array of rows or times passes before it reaches the core.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from chakrakit.arrays import I8, I32, I64, Mask
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
    are is not known here: whoever uses the edges with rows checks the upper end.
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
            found = getattr(array, "dtype", type(array).__name__)
            raise TraceError(
                f"Edges.{name} must be an array of {np.dtype(dtype)}, got {found}; {cure}"
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
        chosen = column(mask, np.bool_, "mask")
        if len(chosen) != len(self):
            raise TraceError(f"mask has {len(chosen):,} entries for {len(self):,} edges")
        return Edges(*(getattr(self, f.name)[chosen] for f in fields(self)))

    def without(self, kinds: Iterable[EdgeKind] | EdgeKind) -> Edges:
        """The edges of all other kinds, in order."""
        listed = [kinds] if isinstance(kinds, EdgeKind) else list(kinds)
        return self.where(~np.isin(self.kind, np.array(listed, np.int8)))

    def __len__(self) -> int:
        return len(self.src)


def _spread(values: ArrayLike, count: int, dtype: type[Scalar], name: str) -> NDArray[Scalar]:
    array = np.asarray(values)
    return column(np.full(count, array[()]) if array.ndim == 0 else array, dtype, name)
