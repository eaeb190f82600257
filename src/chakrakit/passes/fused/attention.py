"""FusedAttention: attention that keeps no scores, in the place of products and a softmax."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.errors import TraceError
from chakrakit.operators import Call, read_call
from chakrakit.passes.base import Pass, map_bodies, names_of, texts_of, with_run_times
from chakrakit.passes.edit import SelectedCalls
from chakrakit.passes.fused.replaced import (
    KernelTimes,
    Replacement,
    check_slower,
    first_kernel,
    kernel_times,
    with_replacements,
)
from chakrakit.trace.model import EdgeKind, Trace
from chakrakit.trace.placement import on_host
from chakrakit.trace.sets import TraceSet

UNFUSED = "aten::_scaled_dot_product_attention_math"
"""What PyTorch calls attention by products and a softmax."""
_MASK, _CAUSAL = 3, 5
"""Which of its arguments are a mask, and whether tokens see only earlier ones."""
_HALF = ("BFloat16", "Half")
"""Element types that flash attention has kernels for; others, and masks, take the efficient one."""


@dataclass(frozen=True)
class FusedAttention(Pass):
    """Replace attention by products and a softmax by one kernel, forward and backward.

    Every call of PyTorch's `scaled_dot_product_attention` that took its plain path (`math`) takes what the
    profile says of the fused kernel (of `machine`, else of the device that was recorded), times `slower`.
    """

    name: ClassVar[str] = "fused-attention"
    preserves: ClassVar[str] = "nodes, edges, sizes and groups; every time outside of attention"
    machine: str = ""
    slower: float = 1.0

    def __post_init__(self) -> None:
        check_slower(self.slower)

    def apply(self, traces: TraceSet) -> TraceSet:
        """The traces with fused attention; none that is unfused is an error."""
        traces = with_run_times(traces)
        if not any(unfused_calls(traces.body_at(i)).any() for i in range(traces.body_count)):
            raise TraceError(f"{self}: no call of {UNFUSED}")
        times = kernel_times(traces, self.machine, self.slower, self.name)
        return map_bodies(traces, lambda trace: _fused(trace, times))

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """How many calls were fused, over all bodies."""
        bodies = range(before.body_count)
        return {"calls": sum(int(unfused_calls(before.body_at(i)).sum()) for i in bodies)}


def unfused_calls(trace: Trace) -> Mask:
    """Rows of the host that call attention on its plain path."""
    return np.asarray(on_host(trace) & (names_of(trace) == UNFUSED), np.bool_)


def _fused(trace: Trace, times: KernelTimes) -> Trace:
    forward = SelectedCalls(trace, unfused_calls(trace)).call
    edges = trace.edges.where(trace.edges.kind == EdgeKind.AUTOGRAD)
    mine = edges.where((forward[edges.src] >= 0) & (forward[edges.dst] < 0))
    started = np.zeros(len(trace), np.bool_)
    started[mine.dst] = True
    backward = SelectedCalls(trace, started).call
    call_of = dict(zip(mine.dst.tolist(), forward[mine.src].tolist(), strict=True))
    calls = np.unique(forward[forward >= 0]).tolist()
    arguments = _arguments(trace, calls)

    def replacements() -> Iterator[Replacement]:
        for i, call in enumerate(calls):
            shapes, types, values = arguments[i % len(arguments)]
            parts = [b for b, f in call_of.items() if f == call]
            rows = np.flatnonzero(np.isin(backward, parts)) if parts else np.zeros(0, np.int64)
            yield _replaced(
                trace, np.flatnonzero(forward == call), times, _forward(shapes, types, values)
            )
            if len(rows):
                yield _replaced(trace, rows, times, _backward(shapes, types, values))

    return with_replacements(trace, replacements())


def _arguments(trace: Trace, calls: list[int]) -> list[tuple[list[Any], list[str], list[Any]]]:
    """Shapes, types and values of calls; those of the first step, where later ones were recorded without."""
    column = [texts_of(trace, c) for c in ("inputs_shapes", "inputs_types", "inputs_values")]
    known = [[json.loads(texts[call] or "[]") for texts in column] for call in calls]
    recorded = [(s, t, v) for s, t, v in known if len(s) >= 3 and t]
    if not recorded:
        raise TraceError(f"fused-attention: no call of {UNFUSED} says its shapes; record them")
    return recorded


def _replaced(trace: Trace, rows: I64, times: KernelTimes, call: Call) -> Replacement:
    kernel_ns = times.nanoseconds(call)
    if kernel_ns is None:
        raise TraceError(f"fused-attention: the profile has no time for {call.name}")
    host = int(rows[np.argmin(trace.start_ns[rows] + (~on_host(trace)[rows]) * 2**62)])
    return Replacement(rows, first_kernel(trace, rows), kernel_ns, host, int(trace.own_ns[host]))


def _backend(types: list[str], values: list[Any]) -> str:
    masked = len(values) > _MASK and isinstance(values[_MASK], list)
    half = any(name in types[0] for name in _HALF)
    return "flash" if half and not masked else "efficient"


def _causal(values: list[Any]) -> bool:
    return len(values) > _CAUSAL and values[_CAUSAL] is True


def _forward(shapes: list[Any], types: list[str], values: list[Any]) -> Call:
    """The fused operator of a call's queries, keys and values."""
    name = f"aten::_scaled_dot_product_{_backend(types, values)}_attention"
    flags: list[Any] = [0.0, _causal(values)]
    if "efficient" in name:
        flags = [None, True, *flags]
    return _call(name, shapes[:3], types[:3], flags)


def _backward(shapes: list[Any], types: list[str], values: list[Any]) -> Call:
    """Its gradients: those of the result, the three inputs, the result and the sums that were kept."""
    backend = _backend(types, values)
    name = f"aten::_scaled_dot_product_{backend}_attention_backward"
    q, k, v = shapes[:3]
    flags: list[Any]
    if backend == "flash":
        tensors = [q, q, k, v, q, q[:-1], [], [], [], []]
        flags = [0.0, _causal(values)]
    else:
        tensors = [q, q, k, v, [], q, q[:-1], [], []]
        flags = [0.0, [True] * 4, _causal(values)]
    return _call(name, tensors, [types[0]] * len(tensors), flags)


def _call(name: str, tensors: list[Any], types: list[str], flags: list[Any]) -> Call:
    shapes = [*tensors, *([] for _ in flags)]
    kinds = [
        *(t if s else "None" for s, t in zip(tensors, types, strict=True)),
        *("Bool" for _ in flags),
    ]
    values = [*("<None>" for _ in tensors), *flags]
    return read_call(name, json.dumps(shapes), json.dumps(kinds), values=json.dumps(values))
