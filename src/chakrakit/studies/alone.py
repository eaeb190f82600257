"""How long a collective or message takes when nothing else is on the machine: no run has it shorter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chakrakit.machines.machine import Machine
from chakrakit.simulator.moves import I64
from chakrakit.simulator.native import run
from chakrakit.simulator.shapes import Shape, shapes
from chakrakit.trace.card import Card
from chakrakit.trace.groups import Groups
from chakrakit.trace.schema import NodeType
from chakrakit.trace.trace import Trace
from chakrakit.trace.traceset import Binding, TraceSet


class Alone:
    """Asks the simulator itself, once for each kind, size and shape of group."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._times: dict[tuple[int, int, Shape], int] = {}
        self._loads: dict[tuple[int, int, bytes], NDArray[np.float64]] = {}
        self._shapes: dict[bytes, dict[Shape, Sequence[int]]] = {}

    def collective(self, kind: int, size: int, groups: Sequence[Sequence[int]]) -> int:
        """Picoseconds on whichever of these equal groups is quickest."""
        if len(groups[0]) < 2:
            return 0
        return min(self._time(kind, size, s, m) for s, m in self._distinct(groups).items())

    def _distinct(self, groups: Sequence[Sequence[int]]) -> dict[Shape, Sequence[int]]:
        members = np.array(groups, np.int64)
        key = members.tobytes() + bytes(str(members.shape), "ascii")
        if key not in self._shapes:
            found = shapes(self._machine, members)
            self._shapes[key] = dict(zip(reversed(found), reversed(groups), strict=True))
        return self._shapes[key]

    def _time(self, kind: int, size: int, shape: Shape, members: Sequence[int]) -> int:
        key = (kind, size, shape)
        if key not in self._times:
            self._times[key] = run(_one(kind, size, members), self._machine).makespan_ps
        return self._times[key]

    def load(self, kind: int, size: int, members: Sequence[int]) -> NDArray[np.float64]:
        """Picoseconds that each link of the machine is busy with it at full rate."""
        key = (kind, size, np.array(members).tobytes())
        if key not in self._loads:
            outcome = run(_one(kind, size, members), self._machine)
            self._loads[key] = outcome.link_bytes / self._machine.links.bandwidth * 1e12
        return self._loads[key]

    def message(self, size: int, src: I64, dst: I64) -> int:
        """Picoseconds of a message on the quickest of some routes."""
        routes = self._machine.routes(src, dst)
        links = self._machine.links
        seconds = routes.latency(links) + size / routes.bandwidth(links)
        return int(seconds.min() * 1e12)


def _one(kind: int, size: int, members: Sequence[int]) -> TraceSet:
    """A workload of one collective."""
    trace = Trace.from_columns(
        {
            "name": ["collective"],
            "type": [NodeType.COMM_COLL_NODE],
            "comm_type": [kind],
            "comm_size": [size],
            "pg_name": ["group"],
        }
    )
    bindings = {rank: Binding(0, {"group": "1"}) for rank in members}
    return TraceSet([trace], bindings, Groups({"1": list(members)}), Card())
