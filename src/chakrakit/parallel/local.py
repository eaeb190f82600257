"""Items on this machine's cores."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from typing import Any

from chakrakit.parallel.outcome import Outcome, attempt, text_of
from chakrakit.start_up import keep_pandas_out

# Processes that end when the one that started them is gone, however it went.


_PARENT_DEATH = 1
"""Linux's PR_SET_PDEATHSIG."""


_CONTROL = getattr(ctypes.CDLL(None), "prctl", None)
"""Looked up here, since between fork and exec nothing may be loaded."""


def end_with_parent(by: int = signal.SIGKILL) -> None:
    """Called in a child of the main thread: Linux signals it when its parent ends; elsewhere it watches."""
    if _CONTROL is None or _CONTROL(_PARENT_DEATH, by) != 0:
        watch_parent(os.getppid())


def watch_parent(parent: int) -> None:
    """Called in a child of any thread: looks once a second whether the parent is there.

    To Linux the parent is a thread, and a pool's threads end before their processes. A parent that was gone
    before the child came this far is told by its number.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Local:
    """joblib's own processes (loky), a pool of one for each job.

    One pool of many would be broken as a whole by the death of one of its processes, and could not say
    whose item it was.
    """

    def __init__(self, jobs: int) -> None:
        self.window = jobs
        self._threads = ThreadPoolExecutor(jobs)
        self._mine = threading.local()
        self._pools: list[Any] = []

    def submit(self, function: Callable[[Any], Any], item: Any) -> Future[Outcome[Any]]:
        """Runs the item when a process is free."""
        return self._threads.submit(self._run, function, item)

    def _run(self, function: Callable[[Any], Any], item: Any) -> Outcome[Any]:
        pool = getattr(self._mine, "pool", None) or self._new_pool()
        try:
            answer: Outcome[Any] = pool.submit(attempt, function, item).result()
        except BrokenExecutor:
            self._mine.pool = None
            self._pools.remove(pool)
            raise
        except Exception as error:  # something that cannot be pickled
            return Outcome(0, error=text_of(error))
        return answer

    def _new_pool(self) -> Any:
        from joblib.externals.loky import ProcessPoolExecutor

        self._mine.pool = pool = ProcessPoolExecutor(
            1, initializer=_outlive_nothing, initargs=(os.getpid(),)
        )
        self._pools.append(pool)
        return pool

    def tend(self) -> None:
        """A pool that breaks says so itself."""

    def close(self) -> None:
        """Ends all that was started for it."""
        for pool in list(self._pools):
            pool.shutdown(wait=True, kill_workers=True)
        self._threads.shutdown(cancel_futures=True)


def _outlive_nothing(parent: int) -> None:
    """A worker leaves Ctrl-C to its parent, and ends when the parent is gone, however it went."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    watch_parent(parent)
    keep_pandas_out()
