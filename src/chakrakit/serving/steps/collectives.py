"""The times of a step's collectives, simulated alone on the machine.

They are simulated at four sizes per octave and interpolated linearly between them, as a collective's time is
linear in its size within one algorithm. Serving engines have an all-reduce of their own for small sizes
within a node, which their steps use.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from chakrakit.arrays import F64
from chakrakit.errors import ConfigError
from chakrakit.machines.fabric import Machine, span_of
from chakrakit.machines.library import engine_cost
from chakrakit.simulator.engine import one_collective, run
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.model import CollectiveType, NodeType, Trace
from chakrakit.trace.sets import Card, TraceSet

STEPS_PER_OCTAVE = 4
"""Simulated sizes per doubling: interpolation matters only where the algorithm changes in between."""
SMALLEST = 256.0
"""Bytes of the smallest simulated size; below it only latency counts, and times stay the same."""
MESSAGE = -1
"""In place of a collective's kind."""
OWN_MOST = 8 << 20
"""Bytes up to which two members exchange their buffers whole, on machines without an engine's constants:
the limit of vLLM's kernel, which always does so between two."""


class CollectiveTimes:
    """Seconds of collectives on a machine. Each size of the ladder is simulated once."""

    def __init__(self, machine: Machine, own_all_reduce: bool) -> None:
        self._machine, self._own_all_reduce = machine, own_all_reduce
        self._seconds: dict[tuple[int, int, tuple[int, ...]], float] = {}

    def seconds(self, kind: int, sizes: F64, members: Sequence[int]) -> F64:
        """Seconds of a collective among these devices, for each of these sizes in bytes."""
        group = tuple(members)
        if len(group) < 2 or not (sizes > 0).any():
            return np.zeros(len(sizes))
        if max(group) >= self._machine.size:
            raise ConfigError(
                f"the plan needs device {max(group)}; {self._machine.name} has {self._machine.size} devices"
            )
        rungs = _ladder(float(sizes[sizes > 0].min()), float(sizes.max()))
        times = [self._rung_seconds(kind, n, group) for n in rungs]
        return np.where(sizes > 0, np.interp(sizes, rungs, times), 0.0)

    def _rung_seconds(self, kind: int, size: int, members: tuple[int, ...]) -> float:
        key = (kind, size, members)
        if key not in self._seconds:
            engine_seconds = (
                self._engine_all_reduce(size, members)
                if kind == CollectiveType.ALL_REDUCE
                else None
            )
            self._seconds[key] = self._simulated(*key) if engine_seconds is None else engine_seconds
        return self._seconds[key]

    def _simulated(self, kind: int, size: int, members: tuple[int, ...]) -> float:
        return run(one_collective(kind, size, members), self._machine).makespan_ps * 1e-12

    def _engine_all_reduce(self, size: int, members: tuple[int, ...]) -> float | None:
        """The engine's own all-reduce; None where it calls the communication library."""
        if not self._own_all_reduce:
            return None
        library = self._machine.library
        if library is None:
            two = len(members) == 2 and size <= OWN_MOST
            return self._message_rung(size, *members) if two else None
        if library.engine is None:
            return None
        seconds = engine_cost(
            library.engine, size, span_of(self._machine, np.array(members, np.int64))
        ).seconds
        return None if math.isinf(seconds) else seconds

    def message_seconds(self, sizes: F64, src: int, dst: int) -> F64:
        """Seconds of a message between two devices, for each of these sizes in bytes."""
        if src == dst or not (sizes > 0).any():
            return np.zeros(len(sizes))
        rungs = _ladder(float(sizes[sizes > 0].min()), float(sizes.max()))
        times = [self._message_rung(n, src, dst) for n in rungs]
        return np.where(sizes > 0, np.interp(sizes, rungs, times), 0.0)

    def _message_rung(self, size: int, src: int, dst: int) -> float:
        key = (MESSAGE, size, (src, dst))
        if key not in self._seconds:
            self._seconds[key] = run(_message(size, src, dst), self._machine).makespan_ps * 1e-12
        return self._seconds[key]


@lru_cache(maxsize=8)
def times_on(machine: Machine, own_all_reduce: bool = True) -> CollectiveTimes:
    """The times of a machine, which keep what was simulated already."""
    return CollectiveTimes(machine, own_all_reduce)


def _ladder(smallest: float, largest: float) -> list[int]:
    """The sizes to simulate, from at most the smallest to at least the largest."""
    low, high = (np.log2(max(n, SMALLEST)) * STEPS_PER_OCTAVE for n in (smallest, largest))
    steps = range(int(np.floor(low)), int(np.ceil(high)) + 2)
    return [round(2 ** (s / STEPS_PER_OCTAVE)) for s in steps]


def _message(size: int, src: int, dst: int) -> TraceSet:
    """A workload of one message from src to dst."""
    ends = ((NodeType.COMM_SEND_NODE, "send"), (NodeType.COMM_RECV_NODE, "recv"))
    bodies = [
        Trace.from_columns(
            {
                "name": [name],
                "type": [kind],
                "comm_size": [size],
                "comm_src": [src],
                "comm_dst": [dst],
                "comm_tag": [0],
            }
        )
        for kind, name in ends
    ]
    return TraceSet(bodies, {src: Binding(0), dst: Binding(1)}, Groups({}), Card())
