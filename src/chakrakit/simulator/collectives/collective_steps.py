"""CollectiveSteps: a collective as steps in which members pass pieces of the data on. It knows no machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from chakrakit.arrays import I64

SWITCH = -1
"""The member number of a switch that reduces or copies what it is sent."""


@dataclass(frozen=True, eq=False)
class Step:
    """What happens at once: member src[i] sends `count[i]` pieces to member dst[i], for all i.

    The pieces sent in repetition k are base + (first + k·shift) mod modulus and those after it, where
    counting on from the last of the modulus continues with the first. A receiver adds what it gets to
    what it has (`reduce`) or takes it as it is. A step starts when those in `after` have ended; None
    means the one before it. One that is `joined` flows together with the step before it.
    """

    src: I64
    dst: I64
    first: I64
    count: I64
    reduce: bool
    modulus: int
    base: I64 | int = 0
    repeat: int = 1
    shift: int = 0
    after: tuple[int, ...] | None = None
    joined: bool = False
    wait: float = 0.0
    """Seconds of local work before the transfers of the step."""


@dataclass(frozen=True, eq=False)
class CollectiveSteps:
    """All steps of a collective among n members, over `pieces` equal pieces of its data.

    `owned[p]` is the piece that belongs to member p: what it gives to an all-gather and what it keeps
    of a reduce-scatter; empty where that has no meaning.
    """

    n: int
    pieces: int
    steps: tuple[Step, ...]
    owned: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    name: str = ""

    def after(self, number: int) -> tuple[int, ...]:
        """The steps that step `number` waits for."""
        after = self.steps[number].after
        if after is not None:
            return after
        return (number - 1,) if number else ()

    def transfers(self) -> int:
        """How many messages the schedule has, repetitions counted once."""
        return sum(len(s.src) for s in self.steps)


def step(
    src: Iterable[int] | I64,
    dst: Iterable[int] | I64,
    first: Iterable[int] | I64 | int,
    count: int | I64,
    modulus: int,
    *,
    reduce: bool = False,
    base: I64 | int = 0,
    repeat: int = 1,
    shift: int = 0,
    after: tuple[int, ...] | None = None,
    joined: bool = False,
) -> Step:
    """A step from whatever numpy can read; single numbers count for all transfers."""
    sources = np.asarray(src, np.int64)
    return Step(
        sources,
        np.asarray(dst, np.int64),
        np.broadcast_to(np.asarray(first, np.int64), sources.shape),
        np.broadcast_to(np.asarray(count, np.int64), sources.shape),
        reduce,
        modulus,
        base,
        repeat,
        shift,
        after,
        joined,
    )
