"""A tensor handed from the ranks of one mesh to those of another.

`moves` of sharding.py turns one cutting into another within a mesh. Between meshes every rank of the second
gets what it wants from ranks of the first that hold it: the overlap of two boxes. Where the second wants
copies, each gets a part, and a gather within the second mesh makes them whole: every element crosses once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from chakrakit.workloads.layers.sharding import Degrees, Dim, Move, Tensor, moves

Box = tuple[tuple[int, int], ...]
"""From where to where a rank holds each dimension."""


@dataclass(frozen=True)
class ShardHolder:
    """A rank with its coordinates on the axes that cut a tensor."""

    rank: int
    at: Mapping[str, int]


class Transfer(NamedTuple):
    """Elements that one rank sends to another."""

    source: int
    target: int
    elements: int


def box_of(tensor: Tensor, degrees: Degrees, holder: ShardHolder) -> Box:
    """What a rank holds. Where a cut is not even, some ranks have an element more than others."""
    box = []
    for dim in tensor.dims:
        place, parts = 0, 1
        for axis in dim.axes:
            degree = degrees.get(axis, 1)
            place, parts = place * degree + holder.at.get(axis, 0), parts * degree
        size = int(dim.size)
        box.append((size * place // parts, size * (place + 1) // parts))
    return tuple(box)


def spread(want: Tensor, degrees: Degrees, axes: Sequence[str]) -> Tensor:
    """The cutting in which a tensor arrives: axes that want copies cut its first dimension too."""
    idle = [a for a in axes if degrees.get(a, 1) > 1 and want.where(a) < 0]
    first = want.dims[0]
    return replace(want, dims=(Dim(first.size, (*first.axes, *idle)), *want.dims[1:]))


def gathers(want: Tensor, degrees: Degrees, axes: Sequence[str]) -> list[Move]:
    """The collectives that make whole what arrives in parts."""
    return list(moves(spread(want, degrees, axes), want, degrees))


def transfers(
    have: Tensor,
    have_degrees: Degrees,
    sources: Sequence[ShardHolder],
    want: Tensor,
    want_degrees: Degrees,
    targets: Sequence[ShardHolder],
) -> Iterator[Transfer]:
    """Who hands how much to whom; what a rank holds itself it hands to itself. Copies take turns."""
    copies: dict[Box, list[int]] = {}
    for source in sources:
        copies.setdefault(box_of(have, have_degrees, source), []).append(source.rank)
    for number, target in enumerate(targets):
        wanted = box_of(want, want_degrees, target)
        for box, ranks in copies.items():
            count = _overlap(box, wanted)
            if count:
                own = target.rank in ranks
                yield Transfer(
                    target.rank if own else ranks[number % len(ranks)], target.rank, count
                )


def _overlap(a: Box, b: Box) -> int:
    count = 1
    for (low, high), (other_low, other_high) in zip(a, b, strict=True):
        count *= max(0, min(high, other_high) - max(low, other_low))
    return count
