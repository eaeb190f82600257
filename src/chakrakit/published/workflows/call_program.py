"""Programs of calls to models and tools, and which calls wait for which because of their order alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

MEDIAN_MS, SPREAD = 800.0, 0.5
"""Of a call, log-normal: what answers of a few hundred tokens take at hosted models."""
CALLS = 16


class ProgramCall(NamedTuple):
    """A call in program order."""

    milliseconds: float
    reads: tuple[int, ...] = ()
    writes: bool = False


@cache
def program(kind: str, seed: int) -> tuple[ProgramCall, ...]:
    """A chain, a map whose last call reads all, four rounds of maps, or calls of which each second writes."""
    rng = np.random.default_rng([seed, 27])
    times = rng.lognormal(np.log(MEDIAN_MS), SPREAD, CALLS + 1).tolist()
    if kind == "chain":
        return tuple(ProgramCall(t, (i - 1,) if i else ()) for i, t in enumerate(times[:CALLS]))
    if kind == "map":
        return (*map(ProgramCall, times[:CALLS]), ProgramCall(times[CALLS], tuple(range(CALLS))))
    if kind == "rounds":
        width = CALLS // 4
        before = [tuple(range((i // width - 1) * width, i // width * width)) for i in range(CALLS)]
        return tuple(
            ProgramCall(t, b if i >= width else ())
            for i, (t, b) in enumerate(zip(times, before, strict=False))
        )
    return tuple(
        ProgramCall(t, (i - 1,) if i % 2 else (), writes=bool(i % 2))
        for i, t in enumerate(times[:CALLS])
    )


def ordered(calls: Sequence[ProgramCall], order: str, group: int) -> list[list[int]]:
    """For each call the earlier ones whose end it waits for because of the program's order alone."""
    found: list[list[int]] = []
    last_write: list[int] = []
    barrier: list[int] = []
    begun = 0
    for i, call in enumerate(calls):
        if order == "sequential":
            found.append([i - 1] if i else [])
        elif order == "any":
            found.append(last_write if call.writes else [])
        else:  # groups of calls that read nothing of each other, with a wait for all at their end
            inside = range(begun, i)
            if i - begun >= group or call.writes or any(r in inside for r in call.reads):
                barrier, begun = list(inside) or barrier, i
            found.append(barrier)
        last_write = [i] if call.writes else last_write
    return found
