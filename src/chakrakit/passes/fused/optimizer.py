"""FusedOptimizer: parameters updated by one kernel instead of one for every tensor and operation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import ConfigError, TraceError
from chakrakit.operators import FUSED_LISTS, FUSED_UPDATES, Call, Operand
from chakrakit.passes.base import Pass, map_bodies, names_of, where_named, with_run_times
from chakrakit.passes.edit import SelectedCalls
from chakrakit.passes.fused.replaced import (
    KernelTimes,
    Replacement,
    check_slower,
    first_kernel,
    kernel_times,
    recorded_calls,
    with_replacements,
)
from chakrakit.trace.model import Trace
from chakrakit.trace.placement import on_host
from chakrakit.trace.sets import TraceSet

_STEP = "Optimizer.step#"
_GRADIENT = "torch::autograd::AccumulateGrad"
_EMPTY: I64 = np.zeros(0, np.int64)


@dataclass(frozen=True)
class FusedOptimizer(Pass):
    """Update parameters by one fused kernel, as PyTorch's optimizers do with `fused=True`.

    Every call of `Optimizer.step` that is not fused takes `host_us` on the host, and on the device what its
    profile says of the fused kernel (of `machine`, else of the device that was recorded), times `slower`.
    The default of `host_us` is the median of five programs with 4 to 149 parameters on one H200's host,
    which took 190 to 380.
    """

    name: ClassVar[str] = "fused-optimizer"
    preserves: ClassVar[str] = "nodes, edges, sizes and groups; every time outside of optimizers"
    machine: str = ""
    host_us: float = 233.0
    slower: float = 1.0

    def __post_init__(self) -> None:
        check_slower(self.slower)
        if not 0 <= self.host_us < 1e6:
            raise ConfigError(f"host_us={self.host_us}; it should be 0 to 1e6")

    def apply(self, traces: TraceSet) -> TraceSet:
        """The traces with fused optimizers; none that could be fused is an error."""
        traces = with_run_times(traces)
        if not any(len(unfused_steps(traces.body_at(i))) for i in range(traces.body_count)):
            raise TraceError(f"{self}: no optimizer launches a kernel for every tensor")
        times = kernel_times(traces, self.machine, self.slower, self.name)
        return map_bodies(traces, lambda trace: self._fused(trace, times))

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """How many steps of optimizers were fused, over all bodies."""
        bodies = range(before.body_count)
        return {"steps": sum(len(unfused_steps(before.body_at(i))) for i in bodies)}

    def _fused(self, trace: Trace, times: KernelTimes) -> Trace:
        return with_replacements(trace, self._replacements(trace, times))

    def _replacements(self, trace: Trace, times: KernelTimes) -> Iterator[Replacement]:
        call = None
        for step, rows in _rows_of(trace, unfused_steps(trace)):
            # Shapes may be recorded in the first step alone.
            call = _fused_call(trace, step, rows) or call
            kernel_ns = times.nanoseconds(call) if call else None
            if kernel_ns is None:
                raise TraceError(
                    f"{self.name}: node {int(trace.ids[step])} updates parameters in a way that has no fused "
                    "kernel here; Adam, AdamW and SGD do"
                )
            host_ns = round(self.host_us * 1e3)
            yield Replacement(rows, first_kernel(trace, rows), kernel_ns, step, host_ns)


def unfused_steps(trace: Trace) -> I64:
    """Calls of optimizers that change their tensors one by one or list by list."""
    steps = np.flatnonzero(on_host(trace) & where_named(trace, lambda n: n.startswith(_STEP)))
    if not len(steps):
        return _EMPTY
    fused = where_named(trace, lambda name: "_fused_" in name)
    changes = where_named(trace, FUSED_UPDATES.__contains__)
    inside = [rows for _, rows in _rows_of(trace, steps)]
    unfused = [bool(changes[rows].any() and not fused[rows].any()) for rows in inside]
    chosen: I64 = steps[np.array(unfused)]
    return chosen


def _rows_of(trace: Trace, calls: I64) -> Iterator[tuple[int, I64]]:
    """Each call with the rows that belong to it: those inside, and the kernels they launch."""
    selected = np.zeros(len(trace), np.bool_)
    selected[calls] = True
    owner = SelectedCalls(trace, selected).call
    for call in calls.tolist():
        yield call, np.flatnonzero(owner == call)


def _fused_call(trace: Trace, step: int, rows: I64) -> Call | None:
    """The fused operator on the parameters that these rows change; None where they are not known.

    Kineto alone writes nothing of the tensors in lists: parameters are then what the step made gradients of.
    """
    names = names_of(trace)[rows]
    update = next((name for name in FUSED_UPDATES if name in names), None)
    if update is None:
        return None
    parameters: dict[str, Operand] = {}
    for number, call in enumerate(recorded_calls(trace, rows[names == update])):
        single, recorded = call.tensor(0), call.value(0)
        tensors = [single] if single else call.listed(0)
        identities = [recorded] if single else recorded if isinstance(recorded, list) else []
        for i, tensor in enumerate(tensors):
            identity = identities[i] if i < len(identities) else None
            if tensor.shape:  # a step's counter has no dimensions
                parameters.setdefault(
                    f"{number} {i}" if identity is None else str(identity), tensor
                )
    if not parameters:
        parameters = {str(i): tensor for i, tensor in enumerate(_gradients(trace, step))}
    fused = FUSED_UPDATES[update]
    return Call(fused, [list(parameters.values())] * FUSED_LISTS[fused]) if parameters else None


def _gradients(trace: Trace, step: int) -> Iterator[Operand]:
    """The gradients that were made in the step of a row."""
    same = (trace.step == trace.step[step]) & (names_of(trace) == _GRADIENT)
    for call in recorded_calls(trace, np.flatnonzero(same)):
        tensor = call.tensor(0)
        if tensor is not None and tensor.shape:
            yield tensor
