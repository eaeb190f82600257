"""How long a collective or message takes when nothing else is on the machine: no run has it shorter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.machines.fabric import Machine
from chakrakit.simulator.collectives import Shape, shapes
from chakrakit.simulator.engine import one_collective, run


class _IsolatedTime(NamedTuple):
    time_ps: int
    busy_ps: F64


class IsolatedTimes:
    """Asks the simulator itself, once for each kind, size and way a group lies on the machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._runs: dict[tuple[int, int, tuple[int, ...]], _IsolatedTime] = {}
        self._firsts: dict[bytes, list[tuple[int, ...]]] = {}

    def collective(self, kind: int, size: int, groups: Sequence[Sequence[int]]) -> int:
        """Picoseconds on whichever of these equally large groups is quickest."""
        if len(groups[0]) < 2:
            return 0
        return min(self._run(kind, size, m).time_ps for m in self._distinct(groups))

    def load(self, kind: int, size: int, members: Sequence[int]) -> F64:
        """Picoseconds that each link of the machine is busy with it at full rate."""
        return self._run(kind, size, tuple(members)).busy_ps

    def _run(self, kind: int, size: int, members: tuple[int, ...]) -> _IsolatedTime:
        key = (kind, size, members)
        if key not in self._runs:
            done = run(one_collective(kind, size, members), self._machine)
            busy = done.link_bytes / self._machine.links.bandwidth * 1e12
            self._runs[key] = _IsolatedTime(done.makespan_ps, busy)
        return self._runs[key]

    def _distinct(self, groups: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
        """The first group of each shape."""
        members = np.array(groups, np.int64)
        key = members.tobytes() + bytes(str(members.shape), "ascii")
        if key not in self._firsts:
            first: dict[Shape, tuple[int, ...]] = {}
            for shape, group in zip(shapes(self._machine, members), groups, strict=True):
                first.setdefault(shape, tuple(group))
            self._firsts[key] = list(first.values())
        return self._firsts[key]

    def message(self, size: int, src: I64, dst: I64) -> int:
        """Picoseconds of a message on the quickest of some routes."""
        routes = self._machine.routes(src, dst)
        links = self._machine.links
        seconds = routes.latency(links) + size / routes.bandwidth(links)
        return int(seconds.min() * 1e12)
