"""Tensors cut over mesh axes, and the communication between two ways of cutting one.

For each axis a tensor is cut in one dimension, a partial sum, or the same everywhere. What a producer
holds and what a consumer wants give the collective:

    from \\ to      same          cut                              partial
    same           –             a local slice, nothing moves     –
    cut            all-gather    – , or all-to-all to another dim  –
    partial        all-reduce    reduce-scatter                   –
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from chakrakit.operators import TYPES
from chakrakit.trace.model import CollectiveType

BYTES = {t.name: t.bytes_of(1) for t in TYPES if t.bits % 8 == 0}
"""Bytes of an element, by the short name of its type; types of less than a byte have no such number."""

Degrees = Mapping[str, int]
"""Size of each mesh axis; an axis it does not name has one rank."""


@dataclass(frozen=True)
class Dim:
    """One dimension: its whole size, and the axes that cut it, first cut first."""

    size: int | Fraction
    axes: tuple[str, ...] = ()

    def over(self, *axes: str) -> Dim:
        """The same dimension cut by these axes."""
        return Dim(self.size, axes)

    def local(self, degrees: Degrees) -> Fraction:
        """What one rank has of it."""
        size = Fraction(self.size)
        for axis in self.axes:
            size /= degrees.get(axis, 1)
        return size


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value spread over ranks. Two tensors are the same only if they are one object.

    `node` is the forward node that made it, -1 for what comes from outside. `gathered_from` is the
    cut tensor this one was gathered from, where there is one.
    """

    dims: tuple[Dim, ...]
    dtype: str
    partial: frozenset[str] = frozenset()
    node: int = -1
    gathered_from: Tensor | None = None
    needs_grad: bool = True

    def elements(self, degrees: Degrees) -> int:
        """Elements one rank holds; every cut must come out even."""
        count = Fraction(1)
        for dim in self.dims:
            count *= dim.local(degrees)
        return -(-count.numerator // count.denominator)

    def bytes(self, degrees: Degrees) -> int:
        """Bytes one rank holds."""
        return self.elements(degrees) * BYTES[self.dtype]

    def where(self, axis: str) -> int:
        """The dimension this axis cuts; -1 for none."""
        return next((i for i, d in enumerate(self.dims) if axis in d.axes), -1)


@dataclass(frozen=True)
class Move:
    """One collective of a change of cutting, with the bytes this rank puts in and gets out."""

    kind: CollectiveType
    axis: str
    size: int
    out_size: int
    inwards: bool = False
    """Of an all-to-all: whether it cuts the first dimension, as tokens that go to their experts."""


def moves(have: Tensor, want: Tensor, degrees: Degrees) -> Iterator[Move]:
    """The collectives that turn `have` into `want`, in the order they run.

    Reductions and slices come first and gathers last, so that as little as possible moves.
    """
    now = have
    for axis in sorted(_axes(have, want, degrees), key=lambda a: _urgency(now, want, a)):
        now, move = _change(now, want, axis, degrees)
        if move:
            yield move


def _axes(have: Tensor, want: Tensor, degrees: Degrees) -> list[str]:
    """Axes of more than one rank that treat the two differently, in a fixed order."""
    axes = {a for t in (have, want) for d in t.dims for a in d.axes} | have.partial | want.partial
    return [
        a
        for a in sorted(axes)
        if degrees.get(a, 1) > 1
        and (have.where(a), a in have.partial) != (want.where(a), a in want.partial)
    ]


def _urgency(have: Tensor, want: Tensor, axis: str) -> int:
    if want.where(axis) >= 0:
        return 0 if axis in have.partial else 1
    return 2


def _change(now: Tensor, want: Tensor, axis: str, degrees: Degrees) -> tuple[Tensor, Move | None]:
    """One axis brought to what is wanted of it."""
    source, target = now.where(axis), want.where(axis)
    dims = list(now.dims)
    if source >= 0:
        dims[source] = Dim(dims[source].size, tuple(a for a in dims[source].axes if a != axis))
    if target >= 0:
        dims[target] = Dim(dims[target].size, (*dims[target].axes, axis))
    after = replace(now, dims=tuple(dims), partial=now.partial - {axis}, node=-1)
    if axis in now.partial:
        kind = CollectiveType.ALL_REDUCE if target < 0 else CollectiveType.REDUCE_SCATTER
    elif source >= 0:
        kind = CollectiveType.ALL_GATHER if target < 0 else CollectiveType.ALL_TO_ALL
    else:
        return after, None
    return after, Move(kind, axis, now.bytes(degrees), after.bytes(degrees), target == 0)
