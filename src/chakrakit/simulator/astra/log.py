"""Writes a result as ASTRA-sim's own summary lines, for programs that parse them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrakit.arrays import Mask
from chakrakit.simulator.astra.result import AstraSimulation
from chakrakit.trace.model import COMMUNICATION, NodeType
from chakrakit.trace.timing import Intervals

_KINDS = ("GPU", "Comm", "CPU", "Remote mem")
_MEMORY = (NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE)


def log_lines(result: AstraSimulation) -> Iterator[str]:
    """The lines of every rank that finished, in order of time and then rank."""
    lines: dict[int, list[str]] = {}
    order = np.lexsort((np.arange(result.ranks), result.cycles))
    for rank in order.tolist():
        if result.cycles[rank] < 0:
            continue
        cls = int(result.class_of[rank])
        if cls not in lines:
            lines[cls] = list(_statistics(result, rank))
        yield (
            f"sys[{rank}] finished, {result.cycles[rank]} cycles, "
            f"exposed communication {result.exposed[rank]} cycles."
        )
        for line in lines[cls]:
            yield f"sys[{rank}], {line}"


def times_by_kind(result: AstraSimulation, rank: int) -> dict[str, int]:
    """The time in which at least one GPU, communication, CPU or memory node was in flight, by kind."""
    table, start, end = result.table(rank), result.start(rank), result.end(rank)
    ran = end >= 0
    lengths = {}
    for kind, mask in _masks(table).items():
        in_kind = mask & ran
        if in_kind.any():
            lengths[kind] = Intervals.of(start[in_kind], end[in_kind]).total
    return lengths


def _masks(table: dict[str, NDArray[Any]]) -> dict[str, Mask]:
    kind = table["type"]
    compute = kind == NodeType.COMP_NODE
    cpu = compute & (table["is_cpu_op"] != 0)
    masks = (compute & ~cpu, np.isin(kind, COMMUNICATION), cpu, np.isin(kind, _MEMORY))
    return dict(zip(_KINDS, masks, strict=True))


def _statistics(result: AstraSimulation, rank: int) -> Iterator[str]:
    wall = int(result.end(rank).max())
    yield f"Wall time: {wall}"
    times = times_by_kind(result, rank)
    for kind, length in times.items():
        yield f"{kind} time: {length}"
    overlap = times.get("GPU", 0) + times.get("Comm", 0) - wall
    if overlap > 0:
        yield f"Total compute-communication overlap: {overlap}"
    if result.config.system.roofline_enabled:
        yield from _roofline(result, rank)


def _roofline(result: AstraSimulation, rank: int) -> Iterator[str]:
    """Lines of means over GPU compute, weighted by time; adding 1 ns avoids a division by 0."""
    table = result.table(rank)
    used = _masks(table)["GPU"] & (table["tensor_size"] > 0)
    time = (result.end(rank) - result.start(rank))[used].astype(float)
    total = 1.0 + time.sum()
    peak = float(result.config.system.peak_perf) * 1e12
    bandwidth = float(result.config.system.local_mem_bw) * 1e9
    intensity = table["num_ops"][used] / table["tensor_size"][used]
    perf = np.minimum(bandwidth * intensity, peak)
    bound = (time * (perf >= peak)).sum() / total
    yield f"Compute bound percentage: {bound * 100:.3f}%"
    yield f"Average compute utilization: {(time * perf / peak).sum() / total * 100:.3f}%"
    memory = (time * perf / intensity / bandwidth).sum() / total
    yield f"Average memory utilization: {memory * 100:.3f}%"
    yield f"Average operation intensity: {(time * intensity).sum() / total:.3f}"
