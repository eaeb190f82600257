"""One thread that does what it is given, in order; the program does not wait for it at its end."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

Value = TypeVar("Value")


class Worker:
    """Begins with the first task. A pool's threads would be waited for when the server is stopped."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def submit(self, task: Callable[[], Value]) -> Future[Value]:
        """What the task will give; it can be cancelled until it is begun."""
        future: Future[Value] = Future()
        self._tasks.put((future, task))
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()
        return future

    def _work(self) -> None:
        while True:
            future, task = self._tasks.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(task())
                except BaseException as error:
                    future.set_exception(error)
