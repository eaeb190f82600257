"""Steps of an engine that pads all queries and all context of a step, as transformers' does.

Without a kernel for paged caches, attention gathers the keys of every request in the step, repeats them
for each query head, and runs masked attention of all queries with all of them. Its time follows from
the padded sizes alone. The other operators run as separate kernels: norms in seven, rotary positions
in ten.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
import numpy as np

from chakrakit.machines.device import Device
from chakrakit.serving.steps.operators import StepOperators

_FOLDER = Path(__file__).parent / "measurements"


class Measurements(msgspec.Struct, frozen=True):
    """Microseconds of masked attention and of what prepares it, by shape, on one device."""

    name: str
    device: str
    measured: str
    attention: list[tuple[int, int, int, int, float]]
    """Queries, keys, heads, size of a head, microseconds."""
    gather: list[tuple[int, int, int, float]]
    """Keys, heads they are stored for, size of a head, microseconds; for keys or for values."""
    repeat: list[tuple[int, int, int, float]]
    """Keys, heads they are repeated to, size of a head, microseconds."""


@cache
def measurements_for(device: str) -> Measurements | None:
    """What was measured on a device of this name."""
    for file in sorted(_FOLDER.glob("*.json")):
        if device == file.stem or device.startswith(f"{file.stem}-"):
            return msgspec.json.decode(file.read_bytes(), type=Measurements)
    return None


class MaskedAttention:
    """Seconds of attention of one layer, by padded queries and padded context."""

    def __init__(self, operators: StepOperators, device: Device) -> None:
        model, plan = operators.model, operators.plan
        self.size = model.head_dim or model.hidden // model.heads
        self.heads = model.heads // plan.tp
        self.stored = max(1, (model.kv_heads or model.heads) // plan.tp)
        self.device = device
        self.table = measurements_for(device.name)

    def seconds(self, queries: int, context: int) -> float:
        """As measured where the device was; else what the arithmetic and the copies take at best."""
        keys = context + queries
        return self._measured(queries, keys) if self.table else self._bound(queries, keys)

    def _bound(self, queries: int, keys: int) -> float:
        device = self.device
        flops = 4.0 * queries * keys * self.heads * self.size
        copied = 2 * 2 * keys * self.size * (2 * self.stored + 2 * self.heads) + 2 * queries * keys
        bandwidth = device.memory_bandwidth * device.memory_efficiency
        rate = device.peak_rate("bf16") * device.compute_efficiency
        return float(max(flops / rate, copied / bandwidth))

    def _measured(self, queries: int, keys: int) -> float:
        assert self.table is not None
        sizes = np.unique([r[3] for r in self.table.attention])
        size = int(sizes[np.argmin(np.abs(np.log(sizes / self.size)))])
        scale = self.size / size
        return scale * (
            self._core(queries, keys, size)
            + 2
            * line(
                [(r[0], r[3] * self.stored / r[1]) for r in self.table.gather if r[2] == size], keys
            )
            + 2
            * line(
                [(r[0], r[3] * self.heads / r[1]) for r in self.table.repeat if r[2] == size], keys
            )
        )

    def _core(self, queries: int, keys: int, size: int) -> float:
        """Blocks of queries run side by side, so time grows in steps: the next larger measured one's."""
        assert self.table is not None
        rows = [r for r in self.table.attention if r[3] == size]
        rows_of_heads = queries * self.heads
        steps = np.unique([r[0] * r[2] for r in rows])
        at = int(steps[min(np.searchsorted(steps, rows_of_heads), len(steps) - 1)])
        beyond = max(1.0, rows_of_heads / at)
        return float(beyond) * line([(r[1], r[4]) for r in rows if r[0] * r[2] == at], keys)


def line(points: list[tuple[int, float]], x: float) -> float:
    """Seconds at x of microseconds at some places: linear between and beyond them."""
    xs, ys = (np.array(v, np.float64) for v in zip(*sorted(points), strict=True))
    i = int(np.clip(np.searchsorted(xs, x) - 1, 0, len(xs) - 2))
    value = ys[i] + (x - xs[i]) * (ys[i + 1] - ys[i]) / (xs[i + 1] - xs[i])
    return float(max(value, 0.0)) * 1e-6


def separate_kernels(operators: StepOperators) -> list[tuple[int, float]]:
    """Kernels of one layer beyond the operators' own: how many, and the bytes per token of each.

    Counted in a profile of one step: a norm is a cast, a square, a mean, an addition, a root, two products
    and a cast, of which one is counted already; rotary positions are two products, a negation, a
    concatenation and a sum for queries and for keys; keys and values are put into the cache.
    """
    model = operators.model
    size = model.head_dim or model.hidden // model.heads
    rotated = (model.heads + (model.kv_heads or model.heads)) * size / 2
    kept = (model.kv_heads or model.heads) * size
    return [
        (2 * 4, 8.0 * model.hidden),
        (2 * 3, 8.0),
        (10, 4.0 * rotated),
        (2, 4.0 * kept),
        (2, 4.0 * model.heads * size),
    ]
