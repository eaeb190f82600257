"""The operators of an expanded step, each with the time that it had in the step that was served."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from chakrakit.arrays import I64
from chakrakit.machines.device import (
    Costs,
    CostSource,
    Device,
    each_picoseconds,
    typed_as,
    work_rows,
)
from chakrakit.serving.steps.modelled import ModelledSteps
from chakrakit.serving.steps.operators import MIXING, PRODUCT_SHAPES
from chakrakit.trace.model import Trace

_LAYER = re.compile(r"^layers\.\d+\.")


class ServedOperators:
    """The work model of an engine's steps: FLOPs and bytes of a trace at what `steps` lets them reach."""

    def __init__(self, steps: ModelledSteps, about: str) -> None:
        self.steps, self.name = steps, about
        self._operators = {o.name: o for o in steps.operators.operators}

    def costs(self, trace: Trace, device: Device) -> Costs:
        """The costs of all rows; communication has none here."""
        flops, moved = (trace.column(n, 0).astype(np.float64) for n in ("num_ops", "tensor_size"))
        works = work_rows(trace) & ((flops > 0) | (moved > 0))
        mixing = works & typed_as(trace, *MIXING)
        seconds = np.zeros(len(trace))
        types, kinds = trace.texts("dtype")
        for code, dtype in enumerate(kinds):
            rows = mixing & (types == code)
            seconds[rows] = self.steps.mixing_seconds(flops[rows], moved[rows], dtype)
        names, texts = trace.texts("name")
        of_name = [self._operators.get(_LAYER.sub("", text)) for text in texts]
        products = _Products.of(trace)
        rest = np.flatnonzero(works & ~mixing)
        each, where = np.unique(
            np.stack([names[rest], products.code[rest]]), axis=1, return_inverse=True
        )
        for i, (name, product) in enumerate(each.T.tolist()):
            rows = rest[where.reshape(-1) == i]
            operator = of_name[name]
            assert operator is not None, texts[name]  # both come from one description of the model
            height, inner, outer = products.sizes[product]
            operator = replace(operator, inner=inner, outer=outer)
            work = np.stack([flops[rows], moved[rows]])
            same, place = np.unique(work, axis=1, return_inverse=True)
            heights = np.full(same.shape[1], float(height))
            alone = self.steps.kernel_seconds(operator, same[0], same[1], heights)
            seconds[rows] = alone[place.reshape(-1)]
        ps = each_picoseconds(seconds, lambda row: f"operator {trace[row].name!r}")
        # Steps are served at the clock that was asked for: no limit of power stretches them once more.
        source = np.where(works, CostSource.MEASURED, CostSource.NONE).astype(np.int8)
        return Costs(ps, source, np.zeros(len(trace)))


class _Products(NamedTuple):
    """The sizes of matrix products: of each row its number, and of each number rows, inner and outer."""

    code: I64
    sizes: list[tuple[int, int, int]]

    @classmethod
    def of(cls, trace: Trace) -> _Products:
        """Those of a trace; the last number is that of rows which are no product."""
        codes, texts = trace.texts("inputs_shapes")
        found = map(PRODUCT_SHAPES.fullmatch, texts)
        sizes = [(int(m[1] or 1) * int(m[2]), int(m[3]), int(m[4])) if m else _NONE for m in found]
        code = np.where(codes < 0, len(texts), codes)
        return cls(code.astype(np.int64), [*sizes, _NONE])


_NONE = (0, 0, 0)
