"""Activity of a device: the energy that each row of a trace takes, and how far its time follows the clock.

`PowerLimited` uses it to lower the clock of a device that would exceed its power limit.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import NamedTuple

import numpy as np

from chakrakit.arrays import F64, I64, Mask
from chakrakit.errors import ConfigError
from chakrakit.machines.device.clocks import Clocks, Draws
from chakrakit.machines.device.device import Device
from chakrakit.machines.device.generated import STREAMING, operand_sizes
from chakrakit.machines.device.launchers import operations_of
from chakrakit.machines.device.power import (
    LATENCY,
    PICO,
    Activity,
    Draw,
    PowerConstants,
    highest_share,
    mean_watts,
    zeroed,
)
from chakrakit.machines.device.profile import rate_type
from chakrakit.machines.device.work import Costs, CostSource, WorkModel, dtypes_of, typed_as
from chakrakit.operators import element_bytes
from chakrakit.trace.model import EdgeKind, NodeType, Trace
from chakrakit.trace.placement import on_host

UNTOLD = 0.5
"""Kernels without FLOPs and bytes count as streaming at this share of the memory's bandwidth. Assumed."""
REACHED = 0.92
"""The share of a memory's nominal bandwidth that streaming kernels reach (H200: 4.41 of 4.8 TB/s)."""
FILLS = 4.3e6
"""Bytes from which an elementwise kernel occupies the whole device: 132 multiprocessors with 2,048 threads of
16 bytes each (H200). One that touches less leaves units idle."""
_PRODUCTS = ("gemm", "conv", "attention", "grouped", "moe")
"""Beginnings of the names of classes that run on the units for matrix products."""
COMPUTED = (CostSource.PROFILE, CostSource.EXTRAPOLATED, CostSource.ROOFLINE, CostSource.SCALED)
"""Sources whose times hold at the highest clock, so that a lower clock stretches them."""


def activity_of(
    trace: Trace,
    device: Device,
    constants: PowerConstants,
    seconds: F64,
    profiled: Mask | None = None,
) -> Activity:
    """The activity of every row, from the seconds each takes at the highest clock; host rows have none.

    `profiled` marks the rows whose seconds come from a profile.
    """
    rows = trace.is_type(NodeType.COMP_NODE) & ~on_host(trace)
    flops, moved, product, attention, types = _work(trace, rows)
    most = REACHED * device.memory_bandwidth * seconds
    untold = rows & (flops == 0) & (moved == 0)
    moved = np.where(untold, UNTOLD * most, moved)
    # What is moved faster than memory can came from a cache.
    from_memory = np.minimum(moved, most) if device.memory_bandwidth else moved
    full = np.minimum(from_memory / np.maximum(most, PICO), 1.0)
    each = types.each(constants.product) * np.where(attention, constants.attention, 1.0)
    chip = (flops * each + np.minimum(moved, 2 * most) * constants.cache_pj) * PICO
    filled = np.minimum(1.0, moved / FILLS)
    chip += np.where(product, 0.0, constants.vector_watts * (1 - full) * filled * seconds)
    least = flops / types.each(lambda name: device.peak_rate(name) or np.inf)
    hidden = product & (least >= full * seconds)
    at_memory = np.where(hidden, 0.0, full)
    brought = np.minimum(_brought(trace, rows, constants.cache_bytes), from_memory)
    from_memory = np.where(moved < constants.cache_bytes, brought, from_memory)
    return Activity(
        seconds=np.where(rows, seconds, 0.0),
        chip_joules=np.where(rows, chip, 0.0),
        memory_joules=np.where(rows, from_memory, 0.0) * constants.memory_pj * PICO,
        at_memory=at_memory,
        at_chip=np.where(hidden, 1.0, (1 - LATENCY) * (1 - at_memory)),
        timed_one_by_one=hidden & profiled if profiled is not None else np.zeros_like(rows),
    )


def _brought(trace: Trace, rows: Mask, cache_bytes: float) -> F64:
    """Bytes of operands that no operation just before a row left in the cache.

    They are a product's second operand (weights; saved activations in a gradient of weights) and the keys and
    values of a token's attention. All are 0 where together they stay in the cache from step to step, and
    where rows have no shapes of their own.
    """
    if "inputs_shapes" not in trace.table.column_names:
        return np.zeros(len(trace))
    codes, texts = trace.texts("inputs_shapes")
    elements = np.array([*map(_second_operands, texts), 0.0])[codes]
    names, types = dtypes_of(trace)
    width = np.array([element_bytes(name or "bf16") for name in names], np.float64)[types]
    brought = np.where(rows & typed_as(trace, "matmul", "attention"), elements * width, 0.0)
    return brought if brought.sum() > cache_bytes else np.zeros(len(trace))


def _second_operands(shapes: str) -> float:
    """Elements of a product's second operand, or of the keys and values of attention of one token."""
    first, *second = operand_sizes(shapes) or [()]
    one_token = len(first) == _ATTENTION and first[2] == 1
    return float(sum(map(prod, second))) if len(second) == 1 or one_token else 0.0


_ATTENTION = 4
"""Sizes of an operand of attention: batch, heads, tokens, size of a head."""


class _Types(NamedTuple):
    """The element types in which rows compute: names, and the index of each row's."""

    names: list[str]
    codes: I64

    def each(self, value: Callable[[str], float]) -> F64:
        """A value of its type for every row."""
        return np.array([value(name) for name in self.names], np.float64)[self.codes]


def _work(trace: Trace, rows: Mask) -> tuple[F64, F64, Mask, Mask, _Types]:
    """FLOPs and bytes of every row, whether it runs on product units, whether it is attention, its type.

    Recorded kernels have no type of their own: it is that of the operation, which their names tell.
    """
    flops = np.where(rows, trace.column("num_ops", 0), 0).astype(np.float64)
    moved = np.where(rows, trace.column("tensor_size", 0), 0).astype(np.float64)
    product, attention = typed_as(trace, "matmul", "attention"), typed_as(trace, "attention")
    untold = ~product & ~typed_as(trace, *STREAMING)
    product |= untold & (flops > 16 * moved)
    names, codes = dtypes_of(trace)
    untyped = trace.texts("dtype")[0] < 0
    if (trace.edges.kind == EdgeKind.LAUNCH).any():
        for operation_rows, operation, *_ in operations_of(trace):
            part = list(operation_rows)
            flops[part] = max(flops[part].sum(), operation.flops) / len(part)
            moved[part] = max(moved[part].sum(), operation.bytes) / len(part)
            product[part] = operation.kind.startswith(_PRODUCTS)
            attention[part] = operation.kind.startswith("attention")
            if (dtype := rate_type(operation)) not in names:
                names.append(dtype)
            codes[part] = np.where(untyped[part], names.index(dtype), codes[part])
    return flops, moved, product, attention, _Types(names, codes)


class PowerLimited:
    """A work model on a device that lowers its clock to stay within its power limit.

    Rows that were measured keep their times, which already contain the effect of the clock they ran at.
    `waits` gives the seconds of a run in which no row of a trace runs; the power that the device does not
    draw then is available while it works.
    """

    def __init__(
        self,
        work: WorkModel,
        waits: Callable[[Trace], float] = lambda _: 0.0,
        clocks: Clocks | None = None,
    ) -> None:
        self.work, self.waits, self.name = work, waits, work.name
        self.clocks = clocks or Clocks()
        self._draws: dict[tuple[int, int], tuple[Trace, Draw | Draws | None]] = {}
        self.raised: dict[str, tuple[float, float]] = {}
        """By device, the clocks in MHz that its power limit allows without and with locked phases, where
        these leave room for the others."""

    def costs(self, trace: Trace, device: Device) -> Costs:
        """The work model's costs, stretched where a locked clock or the power limit lowers the clock."""
        self.clocks.check_constants(device)
        costs = self.work.costs(trace, device)
        computed = np.isin(costs.source, COMPUTED)
        draw = Draw(constants=device.dynamic) if device.dynamic is not None else None
        self._draws[id(trace), id(device)] = trace, draw
        if draw is None or not computed.any():
            self._refuse_measured(trace)
            return costs
        seconds = costs.ps.astype(np.float64) * PICO
        activity = activity_of(trace, device, draw.constants, seconds, costs.profiled)
        rows = computed & (activity.seconds > 0)
        at = self.clocks.at(trace, device, np.where(rows, activity.seconds, 0.0))
        capped = self.clocks.capped(device)
        working, waits = zeroed(activity, ~rows), self.waits(trace)

        def highest(at: Callable[[float], Draw | Draws]) -> float:
            return highest_share(
                draw.constants,
                lambda share: mean_watts(at(share), working, device.idle_power, waits),
                capped.power,
            )

        limited = at(highest(at))
        if self.clocks.by_phase:
            without = self.clocks.at_one(device)
            alone = without(highest(without)).clock_mhz
            if alone < limited.highest_clock_mhz:
                self.raised[device.name] = alone, limited.highest_clock_mhz
        self._draws[id(trace), id(device)] = trace, limited
        if limited.share == 1.0:
            return costs
        longer = np.rint(costs.ps * limited.stretch(activity)).astype(np.int64)
        return Costs(np.where(computed, longer, costs.ps), costs.source, costs.error)

    def _refuse_measured(self, trace: Trace) -> None:
        """A clock that would change nothing is refused: measured times are those of the clock they had."""
        if self.clocks and (trace.is_type(NodeType.COMP_NODE) & ~on_host(trace)).any():
            raise ConfigError(
                "--clock and --power-cap change computed times, and all times here were measured; "
                "use --compute roofline or a profile"
            )

    def draw(self, trace: Trace, device: Device) -> Draw | Draws | None:
        """The device at the clock used for a trace; None without power constants."""
        if (id(trace), id(device)) not in self._draws:
            self.costs(trace, device)
        return self._draws[id(trace), id(device)][1]

    @property
    def lowest_share(self) -> float:
        """The lowest clock of all traces so far, as a share of the highest clock."""
        return min((draw.share for _, draw in self._draws.values() if draw), default=1.0)
