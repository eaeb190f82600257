"""Graphed: kernels that are launched together, as from a CUDA graph, and wait for no host."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from chakrakit.arrays import Mask
from chakrakit.errors import ConfigError, TraceError
from chakrakit.passes.base import Pass, map_bodies, with_own_ns, with_run_times
from chakrakit.passes.edit import SelectedCalls
from chakrakit.passes.fused.ahead import loads
from chakrakit.trace.model import EdgeKind, Trace
from chakrakit.trace.placement import on_host
from chakrakit.trace.sets import TraceSet

_HOST_EDGES = [int(k) for k in (EdgeKind.THREAD, EdgeKind.CALL, EdgeKind.AUTOGRAD)]
_OWN_WORK_NS = 1_000_000
"""A longer gap of the host is work of the program's own, which no graph takes over. Assumed: operators cost a
host tens of microseconds."""


@dataclass(frozen=True)
class Graphed(Pass):
    """Launch all kernels from a graph: the host spends nothing on them, and none waits for its launch.

    Kernels of one stream follow each other after `gap_us`; the default is what is left of 1.56 µs, at which
    one H200 runs short queued kernels one after another, when they take half a microsecond themselves.
    Loading of data and gaps of the host above a millisecond stay as they are.
    """

    name: ClassVar[str] = "graphed"
    preserves: ClassVar[str] = "nodes, edges, sizes and groups; the time of every kernel"
    gap_us: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.gap_us < 1e6:
            raise ConfigError(f"gap_us={self.gap_us}; it should be 0 to 1e6")

    def apply(self, traces: TraceSet) -> TraceSet:
        """The traces without launches; kernels that no host launches are an error."""
        traces = with_run_times(traces)
        if not any(launched(traces.body_at(i)).any() for i in range(traces.body_count)):
            raise TraceError(f"{self}: no kernel is launched by a host")
        return map_bodies(traces, self._graphed)

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """How many kernels a graph holds, over all bodies."""
        bodies = range(before.body_count)
        return {"kernels": sum(int(launched(before.body_at(i)).sum()) for i in bodies)}

    def _graphed(self, trace: Trace) -> Trace:
        host = on_host(trace)
        loading = SelectedCalls(trace, loads(trace)).call >= 0
        own = np.where(host & ~loading, 0, trace.own_ns)
        edges = trace.edges
        free = np.isin(edges.kind, _HOST_EDGES) & (edges.lag < _OWN_WORK_NS) & ~loading[edges.dst]
        launches = host[edges.src] & ~host[edges.dst]
        follows = (edges.kind == EdgeKind.STREAM) & ~host[edges.src] & ~host[edges.dst]
        lag = np.where(free, 0, edges.lag)
        lag = np.where(launches, 0, lag)
        lag = np.where(follows, round(self.gap_us * 1e3), lag)
        return with_own_ns(trace, own).with_edges(replace(edges, lag=lag))


def launched(trace: Trace) -> Mask:
    """Rows of the device that a host launches."""
    host, edges = on_host(trace), trace.edges
    rows = np.zeros(len(trace), np.bool_)
    rows[edges.dst[host[edges.src] & ~host[edges.dst]]] = True
    return rows
