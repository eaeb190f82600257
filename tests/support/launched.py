"""A trace in which an operator launches a kernel."""

from __future__ import annotations

from chakrakit import EdgeKind, TraceBuilder


def launched_product(us=100.0):
    """A host operator that calls a launch that starts a kernel."""
    t = TraceBuilder()
    op = t.node(
        "aten::mm",
        4,
        is_cpu_op=True,
        tid=1,
        duration_ns=50_000,
        start_time_ns=0,
        inputs_shapes="[[512, 1024], [1024, 256]]",
        inputs_types='["Tensor(c10::BFloat16)"]',
    )
    call = t.node(
        "cudaLaunchKernel", 4, is_cpu_op=True, tid=1, duration_ns=5_000, start_time_ns=10_000
    )
    kernel = t.comp("gemm_kernel", duration_ns=round(us * 1000), stream=7, start_time_ns=20_000)
    t.edge(call, kernel, EdgeKind.LAUNCH)
    t.edge(op, call, EdgeKind.CALL)
    return t.build()
