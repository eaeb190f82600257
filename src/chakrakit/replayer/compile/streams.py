"""Which device stream each step runs on, and what it waits for on other streams."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chakrakit.replayer.compile.memory import Memory
from chakrakit.replayer.plan import AnyStep, Call, Collective, StandIn, View
from chakrakit.replayer.recording import Recording, Unit
from chakrakit.trace.model import EdgeKind


class Streams:
    """Streams by how busy they were: 0 is the busiest, on which operators run unless said otherwise.

    Streams of communication do not count: its library has its own.
    """

    def __init__(self, seen: Recording) -> None:
        self._stream = seen.trace.column("stream", -1).tolist()
        self._comm = seen.is_comm.tolist()
        busy = Counter(
            s
            for s, host, comm in zip(self._stream, seen.host, self._comm, strict=True)
            if not host and not comm
        )
        self._number = {s: i for i, (s, _) in enumerate(busy.most_common())}
        self._step_of: dict[int, int] = {}
        self._place: list[int] = []
        self._used: dict[int, _Use] = {}
        self._before = _event_edges(seen) if len(self._number) > 1 else {}

    def place(
        self, step: AnyStep, unit: Unit, index: int, memory: Memory, written: set[int]
    ) -> None:
        """Fill in a step's stream, and what it waits for and borrows from other streams.

        `written` are the storages (by `id`) it writes; who only reads waits for those who wrote.
        """
        mine = [k for k in unit.kernels if not self._comm[k]]
        if mine:
            found = Counter(self._number[self._stream[k]] for k in mine)
            step.stream = found.most_common(1)[0][0]
        self._place.append(step.stream)
        if len(self._number) < 2:
            return
        causes = {self._step_of.get(c, -1) for k in mine for c in self._before.get(k, [])}
        self._step_of.update(dict.fromkeys(mine, index))
        for slot in slots_of(step):
            version = id(memory.version_of[slot])
            use = self._used.setdefault(version, _Use(step.stream))
            causes |= use.by(step.stream, index, writes=version in written)
            if use.home != step.stream:
                step.borrowed = [*step.borrowed, slot]
        step.after = sorted(c for c in causes if c >= 0 and self._place[c] != step.stream)


@dataclass
class _Use:
    """Who used a storage: the stream it belongs to, the last step that wrote, and those that read since."""

    home: int
    wrote: int = -1
    read: dict[int, int] = field(default_factory=dict)

    def by(self, stream: int, step: int, *, writes: bool) -> set[int]:
        """A step uses it; gives the steps it must come after."""
        before = {self.wrote}
        if writes:
            before |= set(self.read.values())
            self.wrote, self.read = step, {}
        else:
            self.read[stream] = step
        return before - {step}


def slots_of(step: AnyStep) -> list[int]:
    """Slots a step reads or writes."""
    found: list[int] = []
    if isinstance(step, Call):
        found = [*_given([step.args, list(step.kwargs.values())]), *_numbers(step.outs)]
    elif isinstance(step, View):
        found = [step.base, step.slot]
    elif isinstance(step, Collective):
        found = [*step.inputs, *step.outputs]
    elif isinstance(step, StandIn):
        found = [m[0] for m in step.made]
    return list(dict.fromkeys(found))


def _given(value: Any) -> list[int]:
    """Every `{"slot": n}` in arguments."""
    if isinstance(value, dict):
        return [value["slot"]] if "slot" in value else []
    return [s for item in value for s in _given(item)] if isinstance(value, list) else []


def _numbers(value: Any) -> list[int]:
    if isinstance(value, list):
        return [n for item in value for n in _numbers(item)]
    return [] if value is None else [value]


def _event_edges(seen: Recording) -> dict[int, list[int]]:
    """Kernel → kernels of other streams it waited for by an event."""
    edges = seen.trace.edges
    found: dict[int, list[int]] = {}
    for i in np.flatnonzero(edges.kind == int(EdgeKind.EVENT)).tolist():
        found.setdefault(int(edges.dst[i]), []).append(int(edges.src[i]))
    return found
