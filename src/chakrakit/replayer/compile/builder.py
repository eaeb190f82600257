"""Steps of a plan as they are put together: slots, threads, streams, and who waits for communication."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from chakrakit.replayer.compile.memory import Key, PlanMemory, Version
from chakrakit.replayer.compile.threads import BusyStreams, add_needs
from chakrakit.replayer.options import ReplayOptions
from chakrakit.replayer.plan import AnyStep, Wait
from chakrakit.replayer.recording import RecordedRows
from chakrakit.replayer.tensors import StorageView, storages_in
from chakrakit.replayer.units import Do, ReplayUnit


@dataclass
class _Pending:
    """Communication that nobody has waited for yet."""

    work: int
    written: list[Version]
    read: list[Version]


class Builder:
    """The steps so far and the state of memory after them.

    A *tick* is a unit: `next_unit` ends one. Slots that a unit uses are needed until its last step.
    """

    def __init__(self, seen: RecordedRows, options: ReplayOptions) -> None:
        self.seen, self.options = seen, options
        self.memory = PlanMemory()
        self.steps: list[AnyStep] = []
        self.works = 0
        self._rows: list[int] = []
        self._written: list[set[int]] = []
        self._last_step: list[int] = []
        self._pending: list[_Pending] = []
        self._threads: dict[int, int] = {}
        self._streams = BusyStreams(seen)
        self._owned: set[Key] = set()
        """Storages that a communication made for itself: what touches them is part of it."""

    @property
    def tick(self) -> int:
        """The number of the unit at hand."""
        return len(self._last_step)

    def device(self, recorded: str) -> str:
        """Where a recorded device is now."""
        main = recorded.partition(":")[0] == self.seen.main_device
        return self.options.device if main else "cpu"

    def emit(self, step: AnyStep, unit: ReplayUnit, written: Iterable[Version] = ()) -> None:
        """Add a step of a unit that writes these storages."""
        thread = self.seen.threads[unit.row]
        step.thread = self._threads.setdefault(thread, len(self._threads))
        touched = {id(v) for v in written}
        self._streams.place(step, unit, len(self.steps), self.memory, touched)
        self._rows.append(unit.row)
        self._written.append(touched)
        self.steps.append(step)

    def use(self, tensor: StorageView, unit: ReplayUnit) -> int:
        """The slot of a tensor that is read; a view that nobody was seen to make is made."""
        slot, view = self.memory.read(tensor, self.tick)
        if view is not None:
            self.emit(view, unit)
        return slot

    def versions(self, tensors: Iterable[StorageView | None]) -> list[Version]:
        """The storages these tensors lie in."""
        return [self.memory.find(t) for t in tensors if t is not None]

    # --- communication ------------------------------------------------------------------------

    def started(self, read: list[Version], written: list[Version]) -> None:
        """A communication was issued that nobody waits for yet."""
        self._pending.append(_Pending(self.works, written, read))

    def wait_for_pending(
        self, unit: ReplayUnit, touched: list[Version], written: list[Version]
    ) -> None:
        """Wait for communication whose results are touched or whose sources are overwritten."""
        for work in list(self._pending):
            if _share(work.written, touched) or _share(work.read, written):
                self._pending.remove(work)
                self.emit(Wait(work=work.work), unit)

    def belongs_to_communication(self, unit: ReplayUnit) -> bool:
        """Gloo's wait copies out of a buffer of its own; the replayed wait does so too."""
        if not self._owned:
            return False
        used = storages_in(self.seen.arguments(unit.row, "inputs").values)
        return any(key in self._owned and key not in self.memory.current for key in used)

    # --- from unit to unit --------------------------------------------------------------------

    def next_unit(self, unit: ReplayUnit) -> None:
        """A unit is over. What was made inside and is no result lies where something was free."""
        kept = self.memory.used_now(self.tick)
        for row in unit.inside:
            made = storages_in(self.seen.arguments(row, "outputs").values)
            for key in made - storages_in(self.seen.arguments(row, "inputs").values):
                if unit.do is Do.COLLECTIVE:
                    self._owned.add(key)
                found = self.memory.current.get(key)
                if found is not None and id(found) not in kept:
                    self.memory.forget(key)
        self._last_step.append(len(self.steps) - 1)

    def end(self) -> None:
        """At the end of an iteration all communication is over, and slots are freed when they can."""
        thread = self.steps[-1].thread if self.steps else 0
        for pending in self._pending:
            self.steps.append(Wait(work=pending.work, thread=thread))
            self._rows.append(self._rows[-1])
            self._written.append(set())
        self._last_step.append(len(self.steps) - 1)
        for slot, tick in self.memory.last_use.items():
            if not self.memory.version_of[slot].external:
                step = self.steps[self._last_step[tick]]
                step.free = [*step.free, slot]
        add_needs(self.steps, self._rows, self._written, self.seen, self.memory)


def _share(left: list[Version], right: list[Version]) -> bool:
    return any(a is b for a in left for b in right)
