"""What a training framework adds to the kernels of a device: unfused passes, casts, older kernels, gaps.

A profile times single operators. A framework runs more of them than a model needs (casts of weights and
gradients, norms and activations in several kernels, scaling of FP8 operands), and may run older ones.
That is a property of the framework, the same on every device: one factor for each class of work, fitted
on published training runs (benchmarks/fit_frameworks.py).
"""

from __future__ import annotations

from functools import cache
from math import prod
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from chakrakit.arrays import F64, I64, Mask
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
    cast_bytes: float = 0.0
    """Bytes that move for each element of what a product in FP8 or below multiplies its weights with: it is
    read as it was made and written as it lies and transposed, because the weights' gradient needs it so."""
    fp4_products: float = 1.0
    """Products in FP4, besides `narrow_products`: Hadamard transforms, scales of two levels, and products
    that a recipe keeps wider."""
    experts: float = 1.0
    """Products of experts, where each is one of its own; fused ones in a CUDA graph take the time of their
    kernels."""
    expert_vector: float = 1.0
    """What streams through memory around them: permutations, padding, activations times probabilities in 32
    bits, each in several kernels."""
    experts_us: float = 0.0
    """The least time from one operation of a model with experts to the next, where a host launches it: in
    every layer it waits for the counts of tokens, and cannot run ahead; none launches one for nothing."""
    expert_us: float = 0.0
    """The least time of a narrow product of experts for each one that a rank holds: Transformer Engine's
    grouped products cast the operands of each on their own. Those in 16 bits are one call for all."""
    turns: float = 1.0
    """What both of these are multiplied with where a forward and a backward take turns: the host cuts every
    layer into pieces, each on its stream and with a pass of autograd of its own."""
    graphs: Literal["none", "layers"] = "none"
    """What of a model with experts CUDA graphs replay: nothing, or layers without their experts, which then
    alone take `experts_us`."""


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
        longer = np.rint(costs.ps * factor + self._casts(trace, device)).astype(np.int64)
        experts = of_experts(trace)
        if experts.any():
            launched = experts | (self.framework.graphs == "none")
            each = np.where(self._narrow(trace), launches_of(trace), 0)
            least = self.framework.experts_us * launched + self.framework.expert_us * each
            least = least * (self.framework.turns if _takes_turns(trace) else 1.0)
            longer = np.maximum(longer, np.rint(least * 1e6).astype(np.int64))
        return Costs(np.where(computed, longer, costs.ps), costs.source, costs.error)

    def _casts(self, trace: Trace, device: Device) -> F64:
        """Picoseconds in which operands of narrow products are cast."""
        if not self.framework.cast_bytes or "inputs_shapes" not in trace.table.column_names:
            return np.zeros(len(trace))
        share = device.achieved.get("memory", device.memory_efficiency)
        each = self.framework.cast_bytes / (device.memory_bandwidth * share) * 1e12
        codes, texts = trace.texts("inputs_shapes")
        sizes = [prod(next(iter(operand_sizes(text)), (0,))) for text in texts]
        elements = np.array([*sizes, 0], np.float64)[codes]
        narrow = self._narrow(trace) & typed_as(trace, "matmul") & ~_of_weights(trace)
        return np.where(narrow, elements * each, 0.0)

    def _narrow(self, trace: Trace, types: tuple[str, ...] = _NARROW) -> Mask:
        names, codes = dtypes_of(trace)
        return np.array([rate_name(name) in types for name in names])[codes]

    def _factors(self, trace: Trace) -> F64:
        f = self.framework
        product, experts = typed_as(trace, "matmul"), of_experts(trace)
        products = np.where(self._narrow(trace), f.narrow_products, f.products)
        products = np.where(self._narrow(trace, ("fp4",)), products * f.fp4_products, products)
        products = np.where(experts, products * f.experts, products)
        factor = np.where(product, products, np.where(experts, f.expert_vector, f.vector))
        shared = f.attention * np.where(_shares_sequences(trace), f.context_attention, 1.0)
        factor = np.where(typed_as(trace, "attention"), shared, factor)
        return np.where(typed_as(trace, "optimizer"), f.optimizer, factor)


def of_experts(trace: Trace) -> Mask:
    """Rows of a layer's experts."""
    codes, names = trace.texts("name")
    return np.array([*map(is_of_experts, names), False])[codes]


def _takes_turns(trace: Trace) -> bool:
    """Whether passes of two micro-batches take turns: forward begins again more often than passes do."""
    if not {"phase", "micro_batch", "chunk"} <= set(trace.table.column_names):
        return False
    codes, names = trace.texts("phase")
    forward = np.array([*(name == "forward" for name in names), False])[codes]
    work = work_rows(trace)
    of = [trace.column(name, 0)[forward & work] for name in ("micro_batch", "chunk")]
    passes = np.unique(np.stack(of), axis=1).shape[1]
    begins = np.count_nonzero(np.diff(forward[work].astype(np.int8)) > 0)
    return bool(begins > _OFTEN * passes)


def _of_weights(trace: Trace) -> Mask:
    """Products of weights' gradients, whose operands were cast for the products before them."""
    codes, names = trace.texts("name")
    return np.array([*(name.endswith(".dw") for name in names), False])[codes]


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


_OFTEN = 1.5
"""How often forward begins for each of its passes where two take turns: without them once."""
_GROUPED = 3
"""Operands of grouped products are [experts, tokens, size]."""
_OPERANDS, _SIZES = 3, 4
"""Queries, keys and values, each [batch, heads, tokens, size]."""
