"""Which device stream each step runs on, and what it waits for on other streams."""

from __future__ import annotations

from collections import Counter

import numpy as np

from chakrakit.replay.plan import AnyStep
from chakrakit.replay.recording import Recording
from chakrakit.replay.units import Unit
from chakrakit.trace.edges import EdgeKind


class Streams:
    """Streams by how busy they were: 0 is the busiest, on which operators run unless said otherwise.

    Streams of communication do not count: its library has its own.
    """

    def __init__(self, seen: Recording) -> None:
        self._stream = seen.trace.column("stream", -1).tolist()
        self._comm = seen.is_comm.tolist()
        busy = Counter(
            s for s, host, comm in zip(self._stream, seen.host, self._comm, strict=True)
            if not host and not comm
        )  # fmt: skip
        self._number = {s: i for i, (s, _) in enumerate(busy.most_common())}
        self._step_of: dict[int, int] = {}
        self._place: list[int] = []
        self._before = _event_edges(seen) if len(self._number) > 1 else {}

    def place(self, step: AnyStep, unit: Unit, index: int) -> None:
        """Fill in a step's stream, and the earlier steps of other streams it waits for."""
        mine = [k for k in unit.kernels if not self._comm[k]]
        if mine:
            found = Counter(self._number[self._stream[k]] for k in mine)
            step.stream = found.most_common(1)[0][0]
        for kernel in mine:
            self._step_of[kernel] = index
        self._place.append(step.stream)
        if self._before and mine:
            causes = {self._step_of.get(c, -1) for k in mine for c in self._before.get(k, [])}
            step.after = sorted(
                c for c in causes if 0 <= c < index and self._place[c] != step.stream
            )


def _event_edges(seen: Recording) -> dict[int, list[int]]:
    """Kernel → kernels of other streams it waited for by an event."""
    edges = seen.trace.edges
    found: dict[int, list[int]] = {}
    for i in np.flatnonzero(edges.kind == int(EdgeKind.EVENT)).tolist():
        found.setdefault(int(edges.dst[i]), []).append(int(edges.src[i]))
    return found
