"""Scores: traces laid on devices, to be played by programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import chakrakit.core as core
from chakrakit.arrays import I64
from chakrakit.trace.sets import TraceSet


@dataclass(eq=False)
class Score:
    """Traces on devices. Played as a whole it can be played again at any time, even beside itself.

    Where ranks are played one by one, the first begins a playing that the others join.
    """

    number: int
    name: str
    traces: TraceSet
    devices: Sequence[int]
    offset: I64
    """The first row of each rank, and an end."""
    _together: core.LivePlaying | None = None
    _joined: int = 0

    def playing(self, whole: bool) -> core.LivePlaying:
        """The playing that a `play` takes part in."""
        if whole:
            return core.LivePlaying(self.number)
        if self._together is None or self._joined == len(self.devices):
            self._together, self._joined = core.LivePlaying(self.number), 0
        self._joined += 1
        return self._together


def rows_of(score: Score, values: I64) -> list[I64]:
    """Values of all rows, by rank."""
    return list(np.split(values, score.offset[1:-1]))
