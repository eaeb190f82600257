"""Collectives dimension by dimension: reduce-scatter from the inside out, then all-gather back.

Members form a grid. Pieces are numbered with the first axis as the highest digit, so that what a member
holds after each axis is one run of pieces.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from chakrakit.arrays import I64
from chakrakit.simulator.collectives.collective_steps import CollectiveSteps, TransferStep, step


class MemberGrid:
    """Members on a grid: `members[x0, x1, …]` is the number of the member at that place.

    Each owns `share` pieces of the data that lie side by side.
    """

    def __init__(self, members: I64, share: int = 1) -> None:
        self.members = members
        self.n, self.share = members.size, share
        self.shape = members.shape
        grids = np.meshgrid(*(np.arange(a) for a in self.shape), indexing="ij")
        self.places = [g.reshape(-1) for g in grids]
        self.flat = members.reshape(-1)

    def block(self, axis: int) -> int:
        """The number of pieces of one member after this axis."""
        return self.n // math.prod(self.shape[: axis + 1]) * self.share

    def first_piece(self, axis: int) -> I64:
        """The first piece each member holds before this axis."""
        first = np.zeros(self.n, np.int64)
        for k in range(axis):
            first += self.places[k] * self.block(k)
        return first

    def neighbour(self, axis: int, hop: int) -> I64:
        """For each place the member that is `hop` places further along the axis."""
        return np.roll(self.members, -hop, axis).reshape(-1)


def _ring(grid: MemberGrid, axis: int, reduce: bool, hop: int = 1) -> TransferStep:
    """The step of one axis in which all its rings run at once, forwards (`hop` 1) or backwards (-1)."""
    block, size = grid.block(axis), grid.shape[axis]
    start = grid.places[axis] - (hop if reduce else 0)
    first = start * block % (size * block)
    return step(
        grid.flat,
        grid.neighbour(axis, hop),
        first,
        block,
        size * block,
        reduce=reduce,
        base=grid.first_piece(axis),
        repeat=size - 1,
        shift=-hop * block,
    )


def _two_way(grid: MemberGrid, axis: int, reduce: bool) -> list[TransferStep]:
    """The same with the first half of every block forwards and the second half backwards."""
    half = grid.block(axis) // 2
    forward, backward = (_ring(grid, axis, reduce, hop) for hop in (1, -1))
    count = np.full_like(forward.count, half)
    later = backward.first + half
    return [replace(forward, count=count), replace(backward, first=later, count=count, joined=True)]


def _direct(grid: MemberGrid, axis: int, reduce: bool) -> TransferStep:
    """The step of one axis in which all members on it send to all others at once."""
    block, size = grid.block(axis), grid.shape[axis]
    parts = []
    for hop in range(1, size):
        piece = (grid.places[axis] + hop) % size if reduce else grid.places[axis]
        parts.append((grid.flat, grid.neighbour(axis, hop), piece * block, grid.first_piece(axis)))
    src, dst, first, base = (np.concatenate(c) for c in zip(*parts, strict=True))
    return step(src, dst, first, block, size * block, reduce=reduce, base=base)


def _phase(grid: MemberGrid, axis: int, reduce: bool, way: str) -> list[TransferStep]:
    """What happens on one axis."""
    if way == _TWO_WAY:
        return _two_way(grid, axis, reduce)
    return [(_direct if way == "direct" else _ring)(grid, axis, reduce)]


_TWO_WAY = "two-way-ring"


def hierarchical(
    members: I64, collective: str, ways: Sequence[str], chunks: int = 1
) -> CollectiveSteps:
    """An all-reduce, reduce-scatter or all-gather over a grid.

    `ways` is `ring`, `two-way-ring` or `direct` for each axis. With several chunks, a chunk uses the next
    axis while the following chunk uses this one.
    """
    grid = MemberGrid(members, 2 if _TWO_WAY in ways else 1)
    axes = [k for k, size in enumerate(grid.shape) if size > 1]
    phases: list[TransferStep] = []
    if collective != "all-gather":
        phases += [s for k in axes for s in _phase(grid, k, True, ways[k])]
    if collective != "reduce-scatter":
        phases += [s for k in reversed(axes) for s in _phase(grid, k, False, ways[k])]
    owned = np.zeros(grid.n, np.int64)
    owned[grid.flat] = grid.first_piece(len(grid.shape))
    if collective == "all-reduce":
        owned = np.zeros(0, np.int64)
    pieces = grid.n * grid.share
    steps = _pipelined(phases, chunks, pieces)
    return CollectiveSteps(grid.n, pieces * chunks, steps, owned, "hierarchical")


def _pipelined(phases: list[TransferStep], chunks: int, pieces: int) -> tuple[TransferStep, ...]:
    """The steps of all chunks: a chunk passes all phases, and a phase handles one chunk after another."""
    steps: list[TransferStep] = []
    for chunk in range(chunks):
        for k, phase in enumerate(phases):
            after = [len(steps) - 1] if k else []
            after += [len(steps) - len(phases)] if chunk else []
            base = np.asarray(phase.base) + chunk * pieces
            steps.append(replace(phase, base=base, after=tuple(sorted(after))))
    return tuple(steps)
