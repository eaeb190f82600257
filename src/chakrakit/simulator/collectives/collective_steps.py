"""CollectiveSteps: a collective as steps in which members pass on pieces of its data, on any machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from chakrakit.arrays import I64

SWITCH = -1
"""The member number of a switch that reduces or copies what it is sent."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TransferStep:
    """Transfers that happen at once: member src[i] sends `count[i]` pieces to member dst[i], for all i.

    The pieces sent in repetition k begin with base + (first + k·shift) mod modulus; numbers wrap around at
    the modulus. A receiver adds what it receives to its own data (`reduce`) or replaces that. A step starts
    when those in `after` have ended; None means the step before it. A `joined` step flows together with the
    step before it.
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

    `owned[p]` is the piece that belongs to member p, or the first of several side by side: its input of an
    all-gather and its output of a reduce-scatter; empty where that has no meaning.
    """

    n: int
    pieces: int
    steps: tuple[TransferStep, ...]
    owned: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    name: str = ""
    own_kernels: bool = False
    """Whether kernels of another library run it, which costs nothing of the machine's library."""

    @property
    def depth(self) -> int:
        """Consecutive rounds on the longest way through the steps."""
        ends: list[int] = []
        for i, each in enumerate(self.steps):
            before = max((ends[j] for j in self.after(i) if j < i), default=0)
            ends.append(max(before, ends[-1] if each.joined else before + each.repeat))
        return max(ends, default=0)

    def after(self, number: int) -> tuple[int, ...]:
        """The steps that step `number` waits for."""
        after = self.steps[number].after
        if after is not None:
            return after
        return (number - 1,) if number else ()

    def transfers(self) -> int:
        """The number of messages of the schedule, with repetitions counted once."""
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
) -> TransferStep:
    """A step from anything numpy can convert; single numbers apply to all transfers."""
    sources = np.asarray(src, np.int64)
    return TransferStep(
        src=sources,
        dst=np.asarray(dst, np.int64),
        first=np.broadcast_to(np.asarray(first, np.int64), sources.shape),
        count=np.broadcast_to(np.asarray(count, np.int64), sources.shape),
        reduce=reduce,
        modulus=modulus,
        base=base,
        repeat=repeat,
        shift=shift,
        after=after,
        joined=joined,
    )
