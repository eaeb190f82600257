"""Activity: what the rows of a trace make a device do, as energies and as time that goes with its clock."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from chakrakit.arrays import F64, Mask
from chakrakit.machines.device.device import Device
from chakrakit.machines.device.launchers import operations_of
from chakrakit.machines.device.power import PICO, Activity, Draw, PowerConstants, held_back, only
from chakrakit.machines.device.work import Costs, CostSource, WorkModel, dtypes_of, told_as
from chakrakit.trace.model import EdgeKind, NodeType, Trace
from chakrakit.trace.placement import on_host

UNTOLD = 0.5
"""Kernels of which neither FLOPs nor bytes are known stream at this share of the memory's bandwidth."""
REACHED = 0.92
"""The share of a memory's nominal bandwidth that streaming kernels reach (H200: 4.41 of 4.8 TB/s)."""
_FULL = 0.5
"""A kernel that moves more than this share of what memory can is limited by it."""
_PRODUCTS = ("gemm", "conv", "attention", "grouped", "moe")
"""What classes of work on product units begin with."""
COMPUTED = (CostSource.PROFILE, CostSource.EXTRAPOLATED, CostSource.ROOFLINE)
"""Times that are of the highest clock, so that a lower one stretches them."""


def activity_of(
    trace: Trace,
    device: Device,
    constants: PowerConstants,
    seconds: F64,
    profiled: Mask | None = None,
) -> Activity:
    """The activity of every row, given what each takes at the highest clock; host rows have none.

    `profiled` are the rows whose seconds a profile says.
    """
    rows = trace.is_type(NodeType.COMP_NODE) & ~on_host(trace)
    flops, moved, product, attention = _work(trace, rows)
    most = REACHED * device.memory_bandwidth * seconds
    untold = rows & (flops == 0) & (moved == 0)
    moved = np.where(untold, UNTOLD * most, moved)
    # What is moved faster than memory can came from a cache.
    from_memory = np.minimum(moved, most) if device.memory_bandwidth else moved
    full = from_memory / np.maximum(most, PICO)
    each = _product_pj(trace, constants) * np.where(attention, constants.attention, 1.0)
    chip = (flops * each + np.minimum(moved, 2 * most) * constants.cache_pj) * PICO
    chip += np.where(product, 0.0, constants.vector_watts * (1 - full) * seconds)
    limited = np.where(product, _least_seconds(trace, flops, device) < full * seconds, full > _FULL)
    from_memory = np.where(moved < constants.cache_bytes, 0.0, from_memory)
    return Activity(
        seconds=np.where(rows, seconds, 0.0),
        chip_joules=np.where(rows, chip, 0.0),
        memory_joules=np.where(rows, from_memory, 0.0) * constants.memory_pj * PICO,
        follows_clock=rows & ~limited,
        timed_one_by_one=product & profiled if profiled is not None else np.zeros_like(rows),
    )


def _work(trace: Trace, rows: Mask) -> tuple[F64, F64, Mask, Mask]:
    """FLOPs and bytes of every row, whether product units do it, and whether it is attention."""
    flops = np.where(rows, trace.column("num_ops", 0), 0).astype(np.float64)
    moved = np.where(rows, trace.column("tensor_size", 0), 0).astype(np.float64)
    product, attention = told_as(trace, "matmul", "attention"), told_as(trace, "attention")
    if "op_type" not in trace.table.column_names:
        product = flops > 16 * moved
    if (trace.edges.kind == EdgeKind.LAUNCH).any():
        for which, operation, *_ in operations_of(trace):
            part = list(which)
            flops[part] = max(flops[part].sum(), operation.flops) / len(part)
            moved[part] = max(moved[part].sum(), operation.bytes) / len(part)
            product[part] = operation.kind.startswith(_PRODUCTS)
            attention[part] = operation.kind.startswith("attention")
    return flops, moved, product, attention


def _product_pj(trace: Trace, constants: PowerConstants) -> F64:
    names, codes = dtypes_of(trace)
    each = np.array([constants.product(name) for name in names], np.float64)
    return np.asarray(each[codes])


def _least_seconds(trace: Trace, flops: F64, device: Device) -> F64:
    """At the peak rates."""
    names, codes = dtypes_of(trace)
    rates = np.array([device.peak_rate(n) or np.inf for n in names])
    return np.asarray(flops / rates[codes])


class PowerLimited:
    """A work model on a device that lowers its clock to stay within its power limit.

    Rows that were measured keep their times, as the clock they ran at is in them. `waits` says for how
    many seconds of a run no row of a trace runs; what its device saves then, it may spend while it works.
    """

    def __init__(self, work: WorkModel, waits: Callable[[Trace], float] = lambda _: 0.0) -> None:
        self.work, self.waits, self.name = work, waits, work.name
        self._known: dict[tuple[int, int], tuple[Trace, Draw | None]] = {}

    def costs(self, trace: Trace, device: Device) -> Costs:
        """The work model's, longer where the clock is lower."""
        found = self.work.costs(trace, device)
        computed = np.isin(found.source, COMPUTED)
        draw = Draw(constants=device.dynamic) if device.dynamic is not None else None
        self._known[id(trace), id(device)] = trace, draw
        if draw is None or not computed.any():
            return found
        seconds = found.ps.astype(np.float64) * PICO
        activity = activity_of(trace, device, draw.constants, seconds, found.profiled)
        rows = computed & (activity.seconds > 0)
        held = held_back(
            draw.constants, only(activity, rows), device.idle_power, device.power, self.waits(trace)
        )
        self._known[id(trace), id(device)] = trace, held
        if held.share == 1.0:
            return found
        longer = np.rint(found.ps * held.stretch(activity)).astype(np.int64)
        return Costs(np.where(computed, longer, found.ps), found.source, found.error)

    def draw(self, trace: Trace, device: Device) -> Draw | None:
        """The clock for a trace; None for a device of which no power is known."""
        if (id(trace), id(device)) not in self._known:
            self.costs(trace, device)
        return self._known[id(trace), id(device)][1]

    @property
    def lowest_share(self) -> float:
        """The lowest clock asked for so far, over the highest."""
        return min((draw.share for _, draw in self._known.values() if draw), default=1.0)
