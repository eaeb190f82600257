"""Host threads of a plan: forward and backward on their own, one at a time as recorded."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

Do = Callable[[], None]


class Threads:
    """Runs the steps of a plan on as many threads as were recorded.

    Steps keep their recorded order over all threads: where the thread changes, the next one starts
    when the one before is done, as autograd's thread does when the backward pass begins.
    """

    def __init__(self, torch: Any, steps: list[Do], threads: list[int]) -> None:
        self._torch = torch
        self._stretches = _stretches(steps, threads)
        self._queues: dict[int, queue.SimpleQueue[Any]] = {}
        self._threads: list[threading.Thread] = []
        self._done: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        for thread in {t for t, _ in self._stretches} - {self.main}:
            self._queues[thread] = queue.SimpleQueue()
            self._threads.append(threading.Thread(target=self._work, args=(thread,), daemon=True))
            self._threads[-1].start()

    @property
    def main(self) -> int:
        """The thread that runs on the caller's."""
        return self._stretches[0][0] if self._stretches else 0

    def run(self) -> None:
        """One iteration."""
        for thread, steps in self._stretches:
            if thread == self.main:
                for step in steps:
                    step()
                continue
            self._queues[thread].put(steps)
            problem = self._done.get()
            if problem is not None:
                raise problem

    def close(self) -> None:
        """End the threads and wait for that: one cut off at exit would abort the process."""
        for waiting in self._queues.values():
            waiting.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self, thread: int) -> None:
        with self._torch.inference_mode():
            while (steps := self._queues[thread].get()) is not None:
                try:
                    for step in steps:
                        step()
                    self._done.put(None)
                except BaseException as error:
                    self._done.put(error)


def _stretches(steps: list[Do], threads: list[int]) -> list[tuple[int, list[Do]]]:
    """Consecutive steps of the same thread together."""
    out: list[tuple[int, list[Do]]] = []
    for thread, step in zip(threads, steps, strict=True):
        if not out or out[-1][0] != thread:
            out.append((thread, []))
        out[-1][1].append(step)
    return out
