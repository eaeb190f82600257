"""What a training framework adds to the kernels of a device: unfused passes, casts, older kernels, gaps.

A profile times single operators. A framework runs more of them than a model needs (casts of weights and
gradients, norms and activations in several kernels, scaling of FP8 operands), and may run older ones.
That is a property of the framework, the same on every device: one factor for each class of work, fitted
on published training runs (benchmarks/fit_frameworks.py).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.configuration import read_json
from chakrakit.errors import ConfigError, nearest
from chakrakit.machines.device.device import Device
from chakrakit.machines.device.generated import is_of_experts, operand_sizes
from chakrakit.machines.device.work import (
    Costs,
    CostSource,
    WorkModel,
    as_measured,
    dtypes_of,
    typed_as,
    work_rows,
)
from chakrakit.operators import rate_name
from chakrakit.trace.model import Trace
from chakrakit.trace.placement import on_host

_FILE = Path(__file__).parent.parent / "frameworks.json"
_NARROW = ("fp8", "fp4")


class Framework(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Factors on the time of a device's kernels, by class of work."""

    about: str
    """What the factors were fitted on."""
    products: float = 1.0
    narrow_products: float = 1.0
    """Products in FP8 and below, with the casts and scales around them."""
    attention: float = 1.0
    context_attention: float = 1.0
    """Of ranks that share a sequence, besides `attention`: its parts, and putting them together."""
    vector: float = 1.0
    """Everything that only streams through memory, but for what goes to experts and back."""
    optimizer: float = 1.0
    experts: float = 1.0
    """Everything that experts compute, where each has products, casts and copies of its own; fused ones in a
    CUDA graph take the time of their kernels."""
    experts_us: float = 0.0
    """The least time from one operation of a model with experts to the next, where a host launches it: in
    every layer it waits for the counts of tokens, and cannot run ahead."""
    expert_us: float = 0.0
    """The least time of a product of experts for each one that a rank holds: Transformer Engine's grouped
    products are one call of cuBLAS for each, with casts of its operands."""


@cache
def frameworks() -> dict[str, Framework]:
    """The frameworks that come with the package, by name."""
    return read_json(_FILE, dict[str, Framework], "frameworks")


def framework_named(name: str) -> Framework:
    """A framework by name."""
    if name not in frameworks():
        raise ConfigError(f"--framework {name}: {nearest(name, sorted(frameworks()))}")
    return frameworks()[name]


class InFramework:
    """A work model whose computed times have what a framework adds; recorded times contain it already."""

    def __init__(self, work: WorkModel, framework: Framework) -> None:
        self.work, self.framework, self.name = work, framework, work.name

    def costs(self, trace: Trace, device: Device) -> Costs:
        """The work model's costs, longer by the framework's factors."""
        costs = self.work.costs(trace, device)
        factor = self._factors(trace)
        recorded = as_measured(trace).source == CostSource.MEASURED
        computed = work_rows(trace) & ~on_host(trace) & ~recorded
        longer = np.rint(costs.ps * factor).astype(np.int64)
        if of_experts(trace).any():
            least = self.framework.experts_us + self.framework.expert_us * launches_of(trace)
            longer = np.maximum(longer, np.rint(least * 1e6).astype(np.int64))
        return Costs(np.where(computed, longer, costs.ps), costs.source, costs.error)

    def _factors(self, trace: Trace) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        f = self.framework
        names, codes = dtypes_of(trace)
        narrow = np.array([rate_name(name) in _NARROW for name in names])[codes]
        products = np.where(narrow, f.narrow_products, f.products)
        factor = np.where(typed_as(trace, "matmul"), products, f.vector)
        experts = of_experts(trace)
        factor = np.where(experts & ~typed_as(trace, "matmul"), 1.0, factor)
        factor = np.where(experts, factor * f.experts, factor)
        shared = f.attention * np.where(_shares_sequences(trace), f.context_attention, 1.0)
        factor = np.where(typed_as(trace, "attention"), shared, factor)
        return np.where(typed_as(trace, "optimizer"), f.optimizer, factor)


def of_experts(trace: Trace) -> Mask:
    """Rows of a layer's experts."""
    codes, names = trace.texts("name")
    return np.array([*map(is_of_experts, names), False])[codes]


def launches_of(trace: Trace) -> I64:
    """How many experts each row is a product of: the first of three sizes; 0 for all other rows."""
    if "inputs_shapes" not in trace.table.column_names:
        return np.zeros(len(trace), np.int64)
    codes, texts = trace.texts("inputs_shapes")
    first = [next(iter(operand_sizes(text)), ()) for text in texts]
    held = np.array([*(size[0] if len(size) == _GROUPED else 1 for size in first), 1])[codes]
    return np.where(of_experts(trace) & typed_as(trace, "matmul"), held, 0)


def _shares_sequences(trace: Trace) -> Mask:
    """Rows of attention whose queries are a part of a sequence, and whose keys are all of it."""
    if "inputs_shapes" not in trace.table.column_names:
        return np.zeros(len(trace), np.bool_)
    codes, texts = trace.texts("inputs_shapes")
    cut = np.array([*map(_is_part, texts), False])
    return np.asarray(cut[codes], np.bool_)


def _is_part(shapes: str) -> bool:
    sizes = [part.split(",") for part in shapes.strip("[]").split("],[")]
    if len(sizes) != _OPERANDS or any(len(s) != _SIZES for s in sizes):
        return False
    return int(sizes[0][2]) < int(sizes[1][2])


_GROUPED = 3
"""Operands of grouped products are [experts, tokens, size]."""
_OPERANDS, _SIZES = 3, 4
"""Queries, keys and values, each [batch, heads, tokens, size]."""
