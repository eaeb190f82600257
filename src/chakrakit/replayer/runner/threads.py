"""Host threads of a plan: as many as were recorded, at the same time, each waiting for what it needs."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Do = Callable[[], None]


@dataclass
class _Stretch:
    """Steps that a thread does one after the other. It begins when the steps it needs are over."""

    needs: list[int]
    steps: list[Do] = field(default_factory=list)
    last: int = -1
    """The number of its last step if another thread waits for that, else -1."""


class _Failed(Exception):  # noqa: N818 - reads as what happened
    """Another thread did."""


class Threads:
    """Runs the steps of a plan on as many threads as were recorded.

    Without `needs`, steps keep their order over all threads: where the thread changes, the next one
    starts when the one before is done.
    """

    def __init__(
        self,
        torch: Any,
        steps: list[Do],
        threads: list[int],
        needs: list[list[int]] | None = None,
        device: str = "cpu",
    ) -> None:
        self._torch, self._device = torch, device
        self._stretches = _stretches(steps, threads, needs or _in_order(threads))
        self.main = threads[0] if threads else 0
        self._over: set[int] = set()
        self._changed = threading.Condition()
        self._problem: BaseException | None = None
        self._queues: dict[int, queue.SimpleQueue[bool]] = {}
        self._done: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        for thread in self._stretches.keys() - {self.main}:
            self._queues[thread] = queue.SimpleQueue()
            self._threads.append(threading.Thread(target=self._work, args=(thread,), daemon=True))
            self._threads[-1].start()

    def run(self) -> None:
        """One iteration: it is over when all threads are done."""
        self._over.clear()
        self._problem = None
        for waiting in self._queues.values():
            waiting.put(True)
        self._do(self.main)
        for _ in self._queues:
            self._done.get()
        if self._problem is not None:
            raise self._problem

    def close(self) -> None:
        """End the threads and wait for that: one cut off at exit would abort the process."""
        for waiting in self._queues.values():
            waiting.put(False)
        for thread in self._threads:
            thread.join()

    def _work(self, thread: int) -> None:
        if self._device.startswith("cuda"):
            self._torch.cuda.set_device(self._device)
        with self._torch.inference_mode():
            while self._queues[thread].get():
                self._do(thread)
                self._done.put(None)

    def _do(self, thread: int) -> None:
        try:
            for stretch in self._stretches.get(thread, []):
                if stretch.needs:
                    self._await(stretch.needs)
                for step in stretch.steps:
                    step()
                if stretch.last >= 0:
                    self._tell(stretch.last)
        except _Failed:
            return
        except BaseException as error:
            self._tell(-1, error)

    def _await(self, needs: list[int]) -> None:
        with self._changed:
            while not self._over.issuperset(needs) and self._problem is None:
                self._changed.wait()
        if self._problem is not None:
            raise _Failed

    def _tell(self, step: int, problem: BaseException | None = None) -> None:
        with self._changed:
            self._over.add(step)
            self._problem = self._problem or problem
            self._changed.notify_all()


def _in_order(threads: list[int]) -> list[list[int]]:
    """Each thread begins when the one before has done its part."""
    return [[i - 1] if i and threads[i - 1] != t else [] for i, t in enumerate(threads)]


def _stretches(
    steps: list[Do], threads: list[int], needs: list[list[int]]
) -> dict[int, list[_Stretch]]:
    """Steps of each thread; a stretch ends where somebody waits for it or it waits for somebody."""
    awaited = {n for some in needs for n in some}
    out: dict[int, list[_Stretch]] = {}
    for i, (step, thread, wanted) in enumerate(zip(steps, threads, needs, strict=True)):
        mine = out.setdefault(thread, [])
        if wanted or not mine or mine[-1].last >= 0:
            mine.append(_Stretch(list(wanted)))
        mine[-1].steps.append(step)
        if i in awaited:
            mine[-1].last = i
    return out
