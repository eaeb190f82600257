"""Host threads of a step run at the same time, as recorded: what a step of one must wait for on another.

That is what it uses and another thread makes, changes or lets go; collectives of one group, which every
rank issues in the same order; and what another thread finished while this one did nothing, as autograd's
thread does until the backward pass begins and the main thread until it is over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chakrakit.replayer.compile.memory import PlanMemory
from chakrakit.replayer.plan import AnyStep, Call, Collective, StandIn, View, Wait
from chakrakit.replayer.recording import RecordedRows
from chakrakit.replayer.units import ReplayUnit
from chakrakit.trace.model import EdgeKind

# Which device stream each step runs on, and what it waits for on other streams.


class BusyStreams:
    """Streams by how busy they were: 0 is the busiest, on which operators run unless said otherwise.

    Streams of communication do not count: its library has its own.
    """

    def __init__(self, seen: RecordedRows) -> None:
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
        self, step: AnyStep, unit: ReplayUnit, index: int, memory: PlanMemory, written: set[int]
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


def _event_edges(seen: RecordedRows) -> dict[int, list[int]]:
    """Kernel → kernels of other streams it waited for by an event."""
    edges = seen.trace.edges
    found: dict[int, list[int]] = {}
    for i in np.flatnonzero(edges.kind == int(EdgeKind.EVENT)).tolist():
        found.setdefault(int(edges.dst[i]), []).append(int(edges.src[i]))
    return found


@dataclass
class _ThreadsUse:
    """Who used something last: the step that changed it, and by thread those that looked at it since."""

    changed: int = -1
    seen: dict[int, int] = field(default_factory=dict)


class _Order:
    """Follows slots and storages through the steps and says what each must come after."""

    def __init__(self) -> None:
        self._uses: dict[Hashable, _ThreadsUse] = {}

    def read(self, key: Hashable, step: int, thread: int) -> set[int]:
        use = self._uses.setdefault(key, _ThreadsUse())
        use.seen[thread] = step
        return {use.changed}

    def write(self, key: Hashable, step: int) -> set[int]:
        use = self._uses.setdefault(key, _ThreadsUse())
        before = {use.changed, *use.seen.values()}
        self._uses[key] = _ThreadsUse(step)
        return before


def add_needs(
    steps: list[AnyStep],
    rows: list[int],
    written: list[set[int]],
    seen: RecordedRows,
    memory: PlanMemory,
) -> None:
    """Fill in `needs` of every step: the last step of each other thread that must be over before it.

    `rows` are the recorded rows of the steps, `written` the storages (by `id`) each writes to.
    """
    if len({s.thread for s in steps}) < 2:
        return
    order = _Order()
    issued: dict[int, int] = {}
    pauses = _Pauses(seen)
    for i, step in enumerate(steps):
        before = set(step.after)
        for slot in slots_of(step):
            before |= order.read(("slot", slot), i, step.thread)
            version = id(memory.version_of[slot])
            if version in written[i]:
                before |= order.write(("storage", version), i)
            else:
                before |= order.read(("storage", version), i, step.thread)
        for slot in (*_made(step), *step.free):
            before |= order.write(("slot", slot), i)
        if isinstance(step, Collective):
            before |= order.write(("group", step.group), i)
            issued[step.work] = i
        elif isinstance(step, Wait):
            before |= _waited(order, steps, issued.get(step.work, -1), i, written, memory)
        before |= pauses.before(i, step.thread, rows[i])
        step.needs = _latest(before, i, step.thread, steps)


def _waited(
    order: _Order,
    steps: list[AnyStep],
    issue: int,
    step: int,
    written: list[set[int]],
    memory: PlanMemory,
) -> set[int]:
    """A wait is when a communication's results are there: it changes them."""
    if issue < 0:
        return set()
    before = {issue}
    for slot in slots_of(steps[issue]):
        version = id(memory.version_of[slot])
        if version in written[issue]:
            before |= order.write(("storage", version), step)
    return before


def _made(step: AnyStep) -> list[int]:
    if isinstance(step, View):
        return [step.slot]
    return [m[0] for m in step.made] if isinstance(step, Call | StandIn) else []


def _latest(before: Iterable[int], step: int, thread: int, steps: list[AnyStep]) -> list[int]:
    """Of each other thread the last: it does its steps in order."""
    last: dict[int, int] = {}
    for cause in before:
        if 0 <= cause < step and steps[cause].thread != thread:
            other = steps[cause].thread
            last[other] = max(last.get(other, -1), cause)
    return sorted(last.values())


class _Pauses:
    """What other threads finished since a thread's last step, when it had nothing to do."""

    def __init__(self, seen: RecordedRows) -> None:
        self._start, self._end = seen.trace.start_ns, seen.trace.end_ns
        self._last: dict[int, tuple[int, int, int]] = {}
        """Thread → its last step, and when that began and ended."""

    def before(self, step: int, thread: int, row: int) -> set[int]:
        start, end = int(self._start[row]), int(self._end[row])
        since = self._last[thread][2] if thread in self._last else -1
        found = {
            other
            for name, (other, _, ended) in self._last.items()
            if name != thread and since <= ended <= start
        }
        self._last[thread] = (step, start, end)
        return found
