"""Units: chooses the unit of its device that each compute node runs on, and repacks between layouts."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chakrakit.arrays import F64, I64
from chakrakit.errors import ConfigError, nearest
from chakrakit.machines import load_machine
from chakrakit.machines.device import Device, Unit, dtypes_of
from chakrakit.machines.fabric import Machine
from chakrakit.operators import element_bytes
from chakrakit.passes.base import Pass, map_bodies, texts_of, with_nodes, with_run_times
from chakrakit.trace.model import EdgeKind, NodeType, Trace
from chakrakit.trace.placement import kernels
from chakrakit.trace.sets import TraceSet

_SHAPE = re.compile(r"\[([0-9, ]+)\]")
_CARRIES_DATA = (EdgeKind.DATA, EdgeKind.TENSOR)


@dataclass(frozen=True)
class Units(Pass):
    """Choose the unit of its device that each compute node runs on.

    `machine` says which units there are. `choose` is the name of one, `fastest` (by each node's operations,
    bytes and element type), or `split`: all units that know the type work on a node side by side, in
    proportion to their rates, where that is faster than the fastest. Between units of different layouts
    a node `repack` moves the tensor, once for each layout; with `repack=false` none is added.
    """

    name: ClassVar[str] = "units"
    preserves: ClassVar[str] = (
        "every node with its work and dependencies; repacking nodes are added"
    )
    machine: str | Machine = ""
    choose: str = "fastest"
    repack: bool = True

    def __post_init__(self) -> None:
        device = self._device()
        choices = ("fastest", "split", *device.units)
        if self.choose not in choices:
            raise ConfigError(f"choose={self.choose}: {nearest(self.choose, choices)}")

    def _device(self) -> Device:
        if not self.machine:
            raise ConfigError("units: give machine, which says what units there are")
        machine = load_machine(self.machine) if isinstance(self.machine, str) else self.machine
        device = machine.devices[0]
        if not device.units:
            raise ConfigError(f"device {device.name!r} describes no `units`")
        return device

    def apply(self, traces: TraceSet) -> TraceSet:
        """Returns the traces with a unit for every compute node that has operations or bytes."""
        device = self._device()
        return map_bodies(with_run_times(traces), lambda body: self._placed(body, device))

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """The nodes on each unit, and the bytes that are repacked."""
        units: Counter[str] = Counter()
        repacked = 0
        for body in (after.body_at(b) for b in range(after.body_count)):
            units.update(text for text in texts_of(body, "unit").tolist() if text)
            is_repack = texts_of(body, "op_type") == "repack"
            repacked += int(body.column("tensor_size", 0)[is_repack].sum())
        return {"nodes": dict(sorted(units.items())), "repacked_bytes": repacked}

    def _placed(self, trace: Trace, device: Device) -> Trace:
        flops = trace.column("num_ops", 0).astype(np.float64)
        moved = trace.column("tensor_size", 0).astype(np.float64)
        rows = np.flatnonzero(kernels(trace) & ((flops > 0) | (moved > 0)))
        names, codes = dtypes_of(trace)
        units: list[str | None] = [None] * len(trace)
        for row in rows.tolist():
            units[row] = self._choice(device, flops[row], moved[row], names[codes[row]])
        placed = trace.with_columns({"unit": units})
        return _repacked(placed, device, rows) if self.repack else placed

    def _choice(self, device: Device, flops: float, moved: float, dtype: str) -> str:
        rates = {u.name: rate for u in device.units.values() if (rate := u.rate(dtype))}
        if self.choose in device.units:
            return self.choose
        if not rates:
            raise ConfigError(f"no unit of {device.name} works in {dtype}; add a rate for it")
        best = max(rates, key=lambda name: _speed(device.units[name], rates, flops, moved, device))
        together = sum(rates.values())
        if (
            self.choose == "fastest"
            or len(rates) == 1
            or flops / rates[best] <= moved / (device.memory_bandwidth or 1.0)
        ):
            return best
        shares = {name: rate / together for name, rate in rates.items()}
        return ",".join(f"{name}={share:.9f}" for name, share in shares.items())


def _speed(
    unit: Unit, rates: dict[str, float], flops: float, moved: float, device: Device
) -> tuple[float, float]:
    """How fast a unit does some work; of equally fast ones the one with the higher rate."""
    bandwidth = min(unit.bandwidth or device.memory_bandwidth, device.memory_bandwidth) or 1.0
    return -max(flops / rates[unit.name], moved / bandwidth), rates[unit.name]


def _repacked(trace: Trace, device: Device, rows: I64) -> Trace:
    """Adds a node before every unit that needs the outcome of another in its own layout."""
    layout = _layouts(trace, device)
    sizes, is_placed = _input_bytes(trace), np.isin(np.arange(len(trace)), rows)
    edges = trace.edges
    of_data = np.isin(edges.kind, [int(kind) for kind in _CARRIES_DATA])
    unit = texts_of(trace, "unit")
    node: dict[tuple[int, str], int] = {}
    sizes_of: list[float] = []
    units_of: list[str] = []
    waits: list[tuple[int, int]] = []
    for src, dst in zip(edges.src[of_data].tolist(), edges.dst[of_data].tolist(), strict=True):
        if not (is_placed[src] and is_placed[dst] and layout[dst]) or layout[src] == layout[dst]:
            continue
        if (src, layout[dst]) not in node:  # what was repacked once is there for all who need it so
            node[src, layout[dst]] = len(trace) + len(node)
            waits.append((src, node[src, layout[dst]]))
            sizes_of.append(2 * sizes[dst])  # read in one layout and written in the other
            units_of.append(unit[dst])
        waits.append((node[src, layout[dst]], dst))
    columns: dict[str, Any] = {
        "name": ["repack"] * len(node),
        "type": [int(NodeType.COMP_NODE)] * len(node),
        "op_type": ["repack"] * len(node),
        "dtype": ["bf16"] * len(node),
        "tensor_size": np.array(sizes_of, np.float64).astype(np.int64),
        "unit": units_of,
    }
    return with_nodes(trace, columns, waits) if node else trace


def _layouts(trace: Trace, device: Device) -> list[str]:
    """The layout that each row's unit needs; of a split row its first unit's."""
    names = [text.partition("=")[0] for text in texts_of(trace, "unit").tolist()]
    return [device.units[name].layout if name in device.units else "" for name in names]


def _input_bytes(trace: Trace) -> F64:
    """The bytes of each row's first input; half of what it moves where its shape is not known."""
    out = trace.column("tensor_size", 0).astype(np.float64) / 2
    dtypes = texts_of(trace, "dtype")
    for row, text in enumerate(texts_of(trace, "inputs_shapes").tolist()):
        if (match := _SHAPE.search(text)) is not None:
            sides = [int(side) for side in match[1].split(",") if side.strip()]
            out[row] = float(np.prod(sides)) * element_bytes(dtypes[row] or "bf16")
    return out
