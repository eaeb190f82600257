"""DeepSeek-V3 with its experts in host memory: a prompt, and the decoding of one token."""

from __future__ import annotations

from functools import cache

import numpy as np

from chakrakit.trace.model import Trace, TraceBuilder
from chakrakit.trace.sets import TraceSet
from chakrakit.workloads.description import Plan, Step, Workload
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import model_named

MODEL = "deepseek-v3"
BYTES = {"fp8": 1.0, "int4": 0.56}
"""Of an expert's weight on the CPU; INT4 with a scale of 16 bits for every group of 32."""
GPU_BYTES = 1.0
"""Of a weight on the GPU: attention and shared experts stay in the checkpoint's FP8, whatever the experts of
the CPU were converted to."""


@cache
def prefill(tokens: int, gpus: int, on_cpu: bool) -> TraceSet:
    """One prompt; experts are spread over the GPUs, or computed by the CPU beside each."""
    step = Step(kind="prefill", seq=tokens, global_batch=1, micro_batch=1, matmul_dtype="fp8")
    plan = Plan(dp=gpus, ep=gpus, cp=1, data="none") if gpus > 1 else Plan(data="none")
    if gpus > 1:
        step = Step(
            kind="prefill", seq=tokens // gpus, global_batch=gpus, micro_batch=1, matmul_dtype="fp8"
        )
    traces = generate(Workload(model=model_named(MODEL), plan=plan, step=step))
    return TraceSet(
        [_on_units(traces.body_at(b), on_cpu) for b in range(traces.body_count)],
        traces.bindings,
        traces.groups,
        traces.card,
    )


def _on_units(trace: Trace, on_cpu: bool) -> Trace:
    """Experts on the CPU, all other work on the GPU."""
    names = [str(name) for name in trace.names.to_pylist()]
    experts = np.array([".experts." in name for name in names])
    units = np.where(experts & on_cpu, "cpu", "gpu")
    computes = trace.column("num_ops", 0) > 0
    return trace.with_columns(
        {"unit": [u if c else None for u, c in zip(units, computes, strict=True)]}
    )


@cache
def decode(dtype: str, gpus: int) -> TraceSet:
    """One token: attention and shared weights on the GPU, eight experts of every layer on the CPU."""
    model = model_named(MODEL)
    traces = generate(
        Workload(
            model=model,
            plan=Plan(data="none"),
            step=Step(kind="decode", seq=1024, global_batch=1, micro_batch=1, new_tokens=1),
        )
    )
    return TraceSet.of(_decode_builder(traces.trace(0), dtype, model))


def _decode_builder(trace: Trace, dtype: str, model: object) -> TraceBuilder:
    t = TraceBuilder()
    last: list[int] = []
    each = 3 * model.hidden * model.expert_ffn * BYTES[dtype]  # type: ignore[attr-defined]
    kinds, flops, moved = (
        trace.names.to_pylist(),
        trace.column("num_ops", 0),
        trace.column("tensor_size", 0),
    )
    for name, ops, size in zip(kinds, flops.tolist(), moved.tolist(), strict=True):
        if ".experts." not in str(name):
            last = [
                t.comp(
                    str(name),
                    num_ops=ops,
                    tensor_size=int(size * GPU_BYTES / 2),
                    dtype="fp8",
                    unit="gpu",
                    deps=last,
                )
            ]
        elif str(name).endswith(".up"):
            routed = int(model.top_k * each)  # type: ignore[attr-defined]
            last = [
                t.comp(
                    "experts",
                    num_ops=2 * routed,
                    tensor_size=routed,
                    dtype="fp8",
                    unit="cpu",
                    deps=last,
                )
            ]
    return t
