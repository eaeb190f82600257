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
    """Members on a grid: `members[x0, x1, …]` is the number of the member at that place."""

    def __init__(self, members: I64) -> None:
        self.members = members
        self.n = members.size
        self.shape = members.shape
        grids = np.meshgrid(*(np.arange(a) for a in self.shape), indexing="ij")
        self.places = [g.reshape(-1) for g in grids]
        self.flat = members.reshape(-1)

    def block(self, axis: int) -> int:
        """The number of pieces of one member after this axis."""
        return self.n // math.prod(self.shape[: axis + 1])

    def first_piece(self, axis: int) -> I64:
        """The first piece each member holds before this axis."""
        first = np.zeros(self.n, np.int64)
        for k in range(axis):
            first += self.places[k] * self.block(k)
        return first

    def neighbour(self, axis: int, hop: int) -> I64:
        """For each place the member that is `hop` places further along the axis."""
        return np.roll(self.members, -hop, axis).reshape(-1)


def _ring(grid: MemberGrid, axis: int, reduce: bool) -> list[TransferStep]:
    """The step of one axis in which all its rings run at once."""
    block, size = grid.block(axis), grid.shape[axis]
    start = grid.places[axis] - (1 if reduce else 0)
    first = start * block % (size * block)
    rings = step(
        grid.flat,
        grid.neighbour(axis, 1),
        first,
        block,
        size * block,
        reduce=reduce,
        base=grid.first_piece(axis),
        repeat=size - 1,
        shift=-block,
    )
    return [rings]


def _direct(grid: MemberGrid, axis: int, reduce: bool) -> list[TransferStep]:
    """The step of one axis in which all members on it send to all others at once."""
    block, size = grid.block(axis), grid.shape[axis]
    parts = []
    for hop in range(1, size):
        piece = (grid.places[axis] + hop) % size if reduce else grid.places[axis]
        parts.append((grid.flat, grid.neighbour(axis, hop), piece * block, grid.first_piece(axis)))
    src, dst, first, base = (np.concatenate(c) for c in zip(*parts, strict=True))
    return [step(src, dst, first, block, size * block, reduce=reduce, base=base)]


def hierarchical(
    members: I64, collective: str, ways: Sequence[str], chunks: int = 1
) -> CollectiveSteps:
    """An all-reduce, reduce-scatter or all-gather over a grid; `ways` is `ring` or `direct` for each axis.

    With several chunks, a chunk uses the next axis while the following chunk uses this one.
    """
    grid = MemberGrid(members)
    step_makers = {"ring": _ring, "direct": _direct}
    axes = [k for k, size in enumerate(grid.shape) if size > 1]
    phases: list[list[TransferStep]] = []
    if collective != "all-gather":
        phases += [step_makers[ways[k]](grid, k, True) for k in axes]
    if collective != "reduce-scatter":
        phases += [step_makers[ways[k]](grid, k, False) for k in reversed(axes)]
    owned = np.zeros(grid.n, np.int64)
    owned[grid.flat] = grid.first_piece(len(grid.shape))
    if collective == "all-reduce":
        owned = np.zeros(0, np.int64)
    steps = _pipelined([s for phase in phases for s in phase], chunks, grid.n)
    return CollectiveSteps(grid.n, grid.n * chunks, steps, owned, "hierarchical")


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
