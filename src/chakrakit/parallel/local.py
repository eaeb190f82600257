"""Items on this machine's cores."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from typing import Any

from chakrakit.parallel.orphans import watch_parent
from chakrakit.parallel.outcome import Outcome, attempt, text_of
from chakrakit.start_up import keep_pandas_out


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
