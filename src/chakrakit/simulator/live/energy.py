"""The energy of a world's devices, by the rules of `simulate`; or why it is not known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.machines.device import PICO, Device, Draw, Draws, PowerLimited
from chakrakit.simulator.engine import row_kinds
from chakrakit.simulator.live.cast import Cast
from chakrakit.simulator.live.scores import Score, rows_of
from chakrakit.simulator.live.stuck import COLLECTIVE, COMPUTE, ON_HOST, PLAY, SEND, TIMED
from chakrakit.simulator.results import DeviceWork, joules_of
from chakrakit.trace.model import NodeType, Trace

Working = tuple[int, DeviceWork, Trace]
"""A rank, what its device did, and the rows whose times follow its clock."""


def energy_of(
    cast: Cast, records: dict[str, Any], plays: Sequence[Any], end_ps: int
) -> tuple[float | None, str]:
    """Joules of all devices; or None, and why they are not known."""
    unknown = _unknown(cast, records)
    if unknown:
        return None, unknown
    devices = [cast.machine.device(rank) for rank in range(cast.machine.size)]
    joules = [device.idle_power * end_ps * PICO if device.power else 0.0 for device in devices]
    for rank, work, clocked in _working(cast, records, plays):
        device = devices[rank]
        if device.power:
            draw = _draw(cast.work, clocked, device)
            one_class = ["work"], np.zeros(len(work.trace), np.int64)
            joules[rank] = sum(joules_of(work, end_ps, device, draw, one_class).values())
    return float(sum(joules)), ""


def _unknown(cast: Cast, records: dict[str, Any]) -> str:
    if not any(device.power for device in cast.machine.devices):
        return f"{cast.machine.name} does not say what its devices draw: `power`, `idle_power`"
    if not cast.record:
        return "nothing was recorded: World(record=False)"
    if cast.played is None and PLAY in records["op"]:
        return "traces are played as one verb, whose kernels are not recorded"
    return ""


def _draw(limit: PowerLimited, clocked: Trace, device: Device) -> Draw | Draws | None:
    """The device at its clock; the highest where all times were given."""
    if device.dynamic is None:
        return None
    return limit.draw(clocked, device) if len(clocked) else Draw(constants=device.dynamic)


def _working(cast: Cast, records: dict[str, Any], plays: Sequence[Any]) -> Iterator[Working]:
    return _played(cast.played, plays) if cast.played else _acted(cast, records)


def _played(score: Score, plays: Sequence[Any]) -> Iterator[Working]:
    starts, ends = (rows_of(score, values) for values in plays[3:5])
    for i, rank in enumerate(score.traces.ranks):
        trace = score.traces.body(rank)  # by which the work model knows its clock
        yield score.devices[i], DeviceWork(trace, row_kinds(trace), starts[i], ends[i]), trace


def _acted(cast: Cast, records: dict[str, Any]) -> Iterator[Working]:
    """What the actors of each rank had their device do."""
    on_host = (records["op"] == COMPUTE) & (records["peer"] & ON_HOST != 0)
    works = np.isin(records["op"], (COMPUTE, SEND, COLLECTIVE)) & ~on_host & (records["end"] >= 0)
    ranks = np.array([a.rank for a in cast.actors], np.int64)[records["actor"]]
    for rank in np.unique(ranks[works]).tolist():
        rows = np.flatnonzero(works & (ranks == rank))
        trace = _trace(records, rows)
        work = DeviceWork(trace, row_kinds(trace), records["start"][rows], records["end"][rows])
        yield rank, work, trace.select(_clocked(records, rows))


def _clocked(records: dict[str, Any], rows: I64) -> Mask:
    """Kernels of FLOPs and bytes, whose times the work model gave."""
    timed: Mask = records["peer"][rows] & TIMED != 0
    computed: Mask = records["op"][rows] == COMPUTE
    return computed & ~timed


def _trace(records: dict[str, Any], rows: I64) -> Trace:
    computed = records["op"][rows] == COMPUTE
    size, named = records["size"][rows], [*records["names"], ""]
    columns: dict[str, Any] = {
        "name": ["work"] * len(rows),
        "type": np.where(computed, NodeType.COMP_NODE, NodeType.COMM_COLL_NODE),
        "is_cpu_op": np.zeros(len(rows), np.bool_),
        "num_ops": np.where(computed, np.maximum(records["link"][rows], 0), 0),
        "tensor_size": np.where(computed, size, 0),
        "comm_size": np.where(computed, 0, size),
        "dtype": [
            (named[p] if c else "") or "bf16"
            for p, c in zip(records["place"][rows].tolist(), computed.tolist(), strict=True)
        ],
    }
    return Trace.from_columns(columns)
