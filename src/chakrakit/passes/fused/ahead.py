"""Ahead: batches that are loaded and copied to the device while the step before them runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from chakrakit.arrays import Mask
from chakrakit.errors import ConfigError, TraceError
from chakrakit.passes.base import (
    Pass,
    map_bodies,
    names_of,
    with_own_ns,
    with_run_times,
    without_gaps,
)
from chakrakit.passes.edit import SelectedCalls
from chakrakit.trace.model import EdgeKind, Trace
from chakrakit.trace.placement import on_host
from chakrakit.trace.sets import TraceSet

LOADING = "enumerate(DataLoader"
"""What PyTorch calls the wait for the next batch of a loader."""
_COPY = re.compile(r"Memcpy HtoD \(Pageable")
"""Copies from memory that the host may move, for which the host waits."""


@dataclass(frozen=True)
class Ahead(Pass):
    """Get batches ready while the step before them runs.

    `what` is `loading` (processes of their own load batches: asking for one takes `host_us`), `copies` (from
    pinned memory on a stream of their own: nothing waits for them), or empty for both. The default of
    `host_us` is what asking one of six such processes took on one H200's host (52 and 65).
    """

    name: ClassVar[str] = "ahead"
    preserves: ClassVar[str] = "nodes, sizes and groups; the time of every kernel"
    what: Literal["", "loading", "copies"] = ""
    host_us: float = 58.0

    def __post_init__(self) -> None:
        if not 0 <= self.host_us < 1e9:
            raise ConfigError(f"host_us={self.host_us}; it should be 0 to 1e9")

    def apply(self, traces: TraceSet) -> TraceSet:
        """The traces whose steps find their batches; none that are loaded or copied is an error."""
        traces = with_run_times(traces)
        bodies = [traces.body_at(i) for i in range(traces.body_count)]
        chosen = [rows for name, rows in _WHAT.items() if self.what in ("", name)]
        if not any(rows(body).any() for body in bodies for rows in chosen):
            raise TraceError(
                f"{self}: no batch is loaded, or copied from memory that is not pinned"
            )
        return map_bodies(traces, self._ready)

    def explain(self, before: TraceSet, after: TraceSet) -> dict[str, Any]:
        """How many batches are loaded and how many copies made, over all bodies."""
        bodies = [before.body_at(i) for i in range(before.body_count)]
        return {
            "loaded": sum(int(loads(body).sum()) for body in bodies),
            "copied": sum(int(copies(body).sum()) for body in bodies),
        }

    def _ready(self, trace: Trace) -> Trace:
        if self.what != "copies":
            trace = self._loaded(trace)
        return trace if self.what == "loading" else _copied(trace)

    def _loaded(self, trace: Trace) -> Trace:
        asked = loads(trace)
        call = SelectedCalls(trace, asked).call
        inside = (call >= 0) & on_host(trace)
        own = np.where(inside, 0, trace.own_ns)
        own[asked & (call == np.arange(len(trace)))] = round(self.host_us * 1e3)
        return without_gaps(with_own_ns(trace, own), inside & ~asked)


def loads(trace: Trace) -> Mask:
    """Rows of the host that ask a loader for a batch."""
    names = names_of(trace)
    return on_host(trace) & np.array([str(n).startswith(LOADING) for n in names], np.bool_)


def copies(trace: Trace) -> Mask:
    """Rows of the device that copy from memory of the host which is not pinned."""
    names = names_of(trace)
    return ~on_host(trace) & np.array([bool(_COPY.match(str(n))) for n in names], np.bool_)


_WHAT = {"loading": loads, "copies": copies}


def _copied(trace: Trace) -> Trace:
    """Neither the host nor a kernel waits for copies; what the host waited inside their calls is no work."""
    rows, edges, host = copies(trace), trace.edges, on_host(trace)
    launches = edges.where((edges.kind == EdgeKind.LAUNCH) & rows[edges.dst])
    calls = np.zeros(len(trace), np.bool_)
    calls[launches.src] = True
    # The host copies to a buffer itself before the device does, so that its call is long too.
    usual = int(np.median(trace.own_ns[_launching(trace) & ~calls])) if (~calls & host).any() else 0
    own = np.where(rows, 0, np.where(calls, np.minimum(trace.own_ns, usual), trace.own_ns))
    beside = np.isin(trace.parent, trace.parent[calls]) & host & ~calls
    waits = (edges.kind == EdgeKind.SYNC) & (beside | calls)[edges.dst]
    waits |= rows[edges.src] & ~rows[edges.dst] & (edges.kind != EdgeKind.STREAM)
    after = without_gaps(with_own_ns(trace, own), calls | beside)
    return after.with_edges(after.edges.where(~waits))


def _launching(trace: Trace) -> Mask:
    """Rows of the host that launch something."""
    edges = trace.edges
    out = np.zeros(len(trace), np.bool_)
    out[edges.src[edges.kind == EdgeKind.LAUNCH]] = True
    return out & on_host(trace)
