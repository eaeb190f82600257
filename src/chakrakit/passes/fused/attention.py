"""FusedAttention: attention that keeps no scores, in the place of products and a softmax."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chakrakit.arrays import I64, Mask
from chakrakit.errors import TraceError
from chakrakit.operators import Argument, Call, Operand
from chakrakit.passes.base import Pass, map_bodies, names_of, with_run_times
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
    rows_of_calls = np.unique(forward[forward >= 0])
    calls = _calls(trace, rows_of_calls)

    def replacements() -> Iterator[Replacement]:
        for i, row in enumerate(rows_of_calls.tolist()):
            call = calls[i % len(calls)]
            yield _replaced(trace, np.flatnonzero(forward == row), times, _forward(call))
            parts = [b for b, f in call_of.items() if f == row]
            rows = np.flatnonzero(np.isin(backward, parts))
            if len(rows):
                yield _replaced(trace, rows, times, _backward(call))

    return with_replacements(trace, replacements())


def _calls(trace: Trace, rows: I64) -> list[Call]:
    """The calls at these rows; those of the first steps, where later ones were recorded without shapes."""
    calls = [c for c in recorded_calls(trace, rows) if all(map(c.tensor, range(3)))]
    if not calls or len(rows) % len(calls):
        raise TraceError(
            f"fused-attention: {len(calls)} of {len(rows)} calls of {UNFUSED} say their shapes; record them"
        )
    return calls


def _replaced(trace: Trace, rows: I64, times: KernelTimes, call: Call) -> Replacement:
    kernel_ns = times.nanoseconds(call)
    if kernel_ns is None:
        raise TraceError(f"fused-attention: the profile has no time for {call.name}")
    host = int(rows[np.argmin(trace.start_ns[rows] + (~on_host(trace)[rows]) * 2**62)])
    return Replacement(rows, first_kernel(trace, rows), kernel_ns, host, int(trace.own_ns[host]))


def _backend(call: Call) -> str:
    """The kernels that PyTorch would take."""
    half = any(name in _inputs(call)[0].dtype for name in _HALF)
    return "flash" if half and call.tensor(_MASK) is None else "efficient"


def _inputs(call: Call) -> list[Operand]:
    """Queries, keys and values."""
    return [tensor for i in range(3) if (tensor := call.tensor(i)) is not None]


def _forward(call: Call) -> Call:
    """The fused operator of a call's queries, keys and values."""
    backend = _backend(call)
    flags: list[Any] = [0.0, call.flag(_CAUSAL)]
    if backend == "efficient":
        flags = [None, True, *flags]
    return _fused_call(f"{backend}_attention", [*_inputs(call)], flags)


def _backward(call: Call) -> Call:
    """Its gradients: those of the result, the three inputs, the result and the sums that were kept."""
    backend = _backend(call)
    q, k, v = _inputs(call)
    sums = q._replace(shape=q.shape[:-1])
    flags: list[Any]
    if backend == "flash":
        tensors = [q, q, k, v, q, sums, None, None, None, None]
        flags = [0.0, call.flag(_CAUSAL)]
    else:
        tensors = [q, q, k, v, None, q, sums, None, None]
        flags = [0.0, [True] * 4, call.flag(_CAUSAL)]
    return _fused_call(f"{backend}_attention_backward", tensors, flags)


def _fused_call(name: str, tensors: Sequence[Operand | None], flags: list[Any]) -> Call:
    inputs: list[Argument] = [*tensors, *(None for _ in flags)]
    return Call(f"aten::_scaled_dot_product_{name}", inputs, [*(None for _ in tensors), *flags])
