"""Host threads of a step run at the same time, as recorded: what a step of one must wait for on another.

That is what it uses and another thread makes, changes or lets go; collectives of one group, which every
rank issues in the same order; and what another thread finished while this one did nothing, as autograd's
thread does until the backward pass begins and the main thread until it is over.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from chakrakit.replayer.compile.memory import Memory
from chakrakit.replayer.compile.streams import slots_of
from chakrakit.replayer.plan import AnyStep, Call, Collective, StandIn, View, Wait
from chakrakit.replayer.recording import Recording


@dataclass
class _Use:
    """Who used something last: the step that changed it, and by thread those that looked at it since."""

    changed: int = -1
    seen: dict[int, int] = field(default_factory=dict)


class _Order:
    """Follows slots and storages through the steps and says what each must come after."""

    def __init__(self) -> None:
        self._uses: dict[Hashable, _Use] = {}

    def read(self, key: Hashable, step: int, thread: int) -> set[int]:
        use = self._uses.setdefault(key, _Use())
        use.seen[thread] = step
        return {use.changed}

    def write(self, key: Hashable, step: int) -> set[int]:
        use = self._uses.setdefault(key, _Use())
        before = {use.changed, *use.seen.values()}
        self._uses[key] = _Use(step)
        return before


def add_needs(
    steps: list[AnyStep], rows: list[int], written: list[set[int]], seen: Recording, memory: Memory
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
    memory: Memory,
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

    def __init__(self, seen: Recording) -> None:
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
