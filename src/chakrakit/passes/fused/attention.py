"""FusedAttention: attention that keeps no scores, in the place of products and a softmax."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import TraceError
from chakrakit.operators import Argument, Call, Operand
from chakrakit.passes.base import Pass, map_bodies, with_run_times
from chakrakit.passes.edit import SelectedCalls
from chakrakit.passes.fused.replaced import (
    KernelTimes,
    Replacement,
    check_slower,
    first_kernel,
    kernel_times,
    with_replacements,
)
from chakrakit.passes.fused.unfused import PLAIN, AttentionCall, plain_rows, unfused_attention
from chakrakit.trace.model import EdgeKind, Trace
from chakrakit.trace.placement import on_host
from chakrakit.trace.sets import TraceSet

_HALF = ("BFloat16", "Half")
"""Element types that cuDNN and flash attention have kernels for; others take the efficient one."""


@dataclass(frozen=True)
class FusedAttention(Pass):
    """Replace attention by products and a softmax by one kernel, forward and backward.

    Every call of PyTorch's `scaled_dot_product_attention` that took its plain path (`math`), and every two
    batched products with a softmax between them, take what the profile says of the fused kernel (of
    `machine`, else of the device that was recorded), times `slower`. `backend` is `cudnn`, `flash` or
    `efficient`; without it, what PyTorch 2.11 chooses on an H200: `cudnn` in 16 bits, else `efficient`.
    """

    name: ClassVar[str] = "fused-attention"
    preserves: ClassVar[str] = "nodes, edges, sizes and groups; every time outside of attention"
    machine: str = ""
    slower: float = 1.0
    backend: Literal["", "cudnn", "flash", "efficient"] = ""

    def __post_init__(self) -> None:
        check_slower(self.slower)

    def apply(self, traces: TraceSet) -> TraceSet:
        """The traces with fused attention; none that is unfused is an error."""
        traces = with_run_times(traces)
        bodies = [traces.body_at(i) for i in range(traces.body_count)]
        if not any(len(unfused_attention(body)) for body in bodies):
            shapeless = sum(len(plain_rows(body)) for body in bodies)
            raise TraceError(
                f"{self}: {shapeless} calls of {PLAIN} do not say their shapes; record them"
                if shapeless
                else f"{self}: no call of {PLAIN}, and no softmax between two batched products"
            )
        times = kernel_times(traces, self.machine, self.slower, self.name)
        return map_bodies(traces, lambda trace: self._fused(trace, times))

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """How many calls were fused, over all bodies."""
        bodies = range(before.body_count)
        return {"calls": sum(len(unfused_attention(before.body_at(i))) for i in bodies)}

    def _fused(self, trace: Trace, times: KernelTimes) -> Trace:
        return _with_fused(trace, times, self.backend)


def _with_fused(trace: Trace, times: KernelTimes, backend: str) -> Trace:
    calls = unfused_attention(trace)
    forward = np.full(len(trace), -1, np.int64)
    for number, call in enumerate(calls):
        forward[call.rows] = number
    edges = trace.edges.where(trace.edges.kind == EdgeKind.AUTOGRAD)
    mine = edges.where((forward[edges.src] >= 0) & (forward[edges.dst] < 0))
    started = np.zeros(len(trace), np.bool_)
    started[mine.dst] = True
    backward = SelectedCalls(trace, started).call
    call_of = np.full(len(trace), -1, np.int64)
    call_of[mine.dst] = forward[mine.src]

    def replacements() -> Iterator[Replacement]:
        gradients = np.where(backward >= 0, call_of[backward], -1)
        for number, call in enumerate(calls):
            yield _replaced(trace, call.rows, times, _forward(call, backend or _backend(call)))
            rows = np.flatnonzero(gradients == number)
            if len(rows):
                yield _replaced(trace, rows, times, _backward(call, backend or _backend(call)))

    return with_replacements(trace, replacements())


def _replaced(trace: Trace, rows: I64, times: KernelTimes, call: Call) -> Replacement:
    kernel_ns = times.nanoseconds(call)
    if kernel_ns is None:
        raise TraceError(f"fused-attention: the profile has no time for {call.name}")
    host = int(rows[np.argmin(trace.start_ns[rows] + (~on_host(trace)[rows]) * 2**62)])
    return Replacement(rows, first_kernel(trace, rows), kernel_ns, host, int(trace.own_ns[host]))


def _backend(call: AttentionCall) -> str:
    """The kernels that PyTorch would take."""
    return "cudnn" if any(name in call.query.dtype for name in _HALF) else "efficient"


def _forward(call: AttentionCall, backend: str) -> Call:
    """The fused operator of a call's queries, keys and values."""
    tensors: list[Operand | None] = [call.query, call.key, call.value]
    flags: list[Any] = [0.0, call.causal]
    if backend != "flash":
        tensors.append(_mask(call) if call.masked else None)
        flags = [True, *flags]
    return _fused_call(f"{backend}_attention", tensors, flags)


def _backward(call: AttentionCall, backend: str) -> Call:
    """Its gradients: those of the result, the three inputs, the result and the sums that were kept."""
    q, k, v = call.query, call.key, call.value
    sums = q._replace(shape=q.shape[:-1])
    mask = _mask(call) if call.masked else None
    flags: list[Any] = [0.0, call.causal]
    if backend == "flash":
        tensors = [q, q, k, v, q, sums, None, None, None, None]
    elif backend == "cudnn":
        tensors = [q, q, k, v, q, sums, None, None, mask, None, None, None, None]
    else:
        tensors = [q, q, k, v, mask, q, sums, None, None]
        flags = [0.0, [True] * 4, call.causal]
    return _fused_call(f"{backend}_attention_backward", tensors, flags)


def _mask(call: AttentionCall) -> Operand:
    """What is added to the scores, the same for all heads."""
    return call.query._replace(
        shape=(call.query.shape[0], 1, call.query.shape[2], call.key.shape[2])
    )


def _fused_call(name: str, tensors: Sequence[Operand | None], flags: list[Any]) -> Call:
    inputs: list[Argument] = [*tensors, *(None for _ in flags)]
    return Call(f"aten::_scaled_dot_product_{name}", inputs, [*(None for _ in tensors), *flags])
