"""CG and Cholesky on a GPU (rank 0) and the host beside it (rank 1), by the share that the host gets."""

from __future__ import annotations

from functools import cache
from typing import Any

from chakrakit.machines import machine
from chakrakit.machines.fabric import Machine
from chakrakit.published import kernel, unsure
from chakrakit.trace.model import TraceBuilder
from chakrakit.trace.sets import TraceSet

SYSTEMS = {
    "NVIDIA": ((9.7, 1555), (3.0, 380)),
    "AMD": ((22.6, 1638), (3.0, 380)),
    "Intel": ((22.2, 1229), (5.0, 550)),
    "weak CPU": ((9.7, 1555), (0.3, 50)),
}
"""fp64 TFLOP/s and GB/s of a GPU (A100, MI210, Max 1100) and of two sockets beside it, from data sheets."""


@cache
def site(system: str, seed: int) -> Machine:
    """A GPU (rank 0) and a host (rank 1) on PCIe 4.0."""

    def device(name: str, rates: tuple[float, float]) -> dict[str, Any]:
        peaks = {"peak": {"fp64": rates[0] * 1e12}, "memory_bandwidth": rates[1] * 1e9}
        return {
            "name": name,
            "memory": "80 GB",
            "compute_efficiency": 0.8,
            "memory_efficiency": 0.85,
            **peaks,
        }

    gpu, cpu = SYSTEMS[system]
    link = {"topology": "line", "size": 2, "bandwidth": "25 GB/s", "latency": "2 us"}
    changes = [{"ranks": [1], "device": device("cpu", cpu)}]
    overhead = {**device("gpu", gpu), "kernel_overhead": "4 us"}
    return unsure(machine({"device": overhead, "network": [link], "changes": changes}), seed)


def exchange(t: list[TraceBuilder], after: list[list[int]], size: int, tag: int) -> list[list[int]]:
    """Both send and both wait."""
    for rank in (0, 1):
        t[rank].send("part", rank, 1 - rank, max(8, size), tag=tag, deps=after[rank])
    return [[t[r].recv("part", 1 - r, r, max(8, size), tag=tag), *after[r]] for r in (0, 1)]


def conjugate_gradients(n: int, share: float) -> TraceSet:
    """Ten iterations on a grid of n³ cells of seven points; each rank has its slabs."""
    t, last = [TraceBuilder(), TraceBuilder()], [[], []]  # type: ignore[var-annotated]
    for i in range(10):
        for rank, part in ((0, 1 - share), (1, share)):
            if part:
                size = (12 * 7 + 8 * 10) * n**3 * part
                last[rank] = [
                    kernel(t[rank], "iteration", 24 * n**3 * part, size, "fp64", last[rank])
                ]
        if share:
            last = exchange(t, last, 8 * n * n, 3 * i)
            for k in (1, 2):
                last = exchange(t, last, 8, 3 * i + k)
    if not share:
        kernel(t[1], "idle", 1, 1, "fp64")
    return TraceSet.of(t)


def cholesky(n: int, share: float, tile: int) -> TraceSet:
    """Panels on the GPU, the trailing matrix split by columns."""
    t, last = [TraceBuilder(), TraceBuilder()], [[], []]  # type: ignore[var-annotated]
    for i, left in enumerate(range(n, 0, -tile)):
        last[0] = [kernel(t[0], "panel", tile * tile * left, 8 * tile * left, "fp64", last[0])]
        rest = max(0, left - tile)
        if share and rest:
            t[0].send("panel", 0, 1, 8 * tile * left, tag=i, deps=last[0])
            last[1] = [t[1].recv("panel", 0, 1, 8 * tile * left, tag=i), *last[1]]
        for rank, part in ((0, 1 - share), (1, share)):
            if part and rest:
                flops = tile * rest * rest * part
                last[rank] = [
                    kernel(t[rank], "update", flops, 8 * rest * rest * part, "fp64", last[rank])
                ]
        if (
            share and rest
        ):  # the next panel's columns are on the GPU when the CPU has updated its own
            t[1].send("columns", 1, 0, int(8 * tile * rest * share), tag=10_000 + i, deps=last[1])
            last[0] = [
                t[0].recv("columns", 1, 0, int(8 * tile * rest * share), tag=10_000 + i),
                *last[0],
            ]
    if not share:
        kernel(t[1], "idle", 1, 1, "fp64")
    return TraceSet.of(t)
