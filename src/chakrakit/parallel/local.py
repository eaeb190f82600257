"""The local engine: items on this machine's cores, in processes that end with the one that started them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from chakrakit.parallel.keeper import descendants
from chakrakit.parallel.outcome import ItemOutcome, attempt, text_of
from chakrakit.start_up import keep_pandas_out

# Processes that end when the one that started them is gone, however it went.


KEEPER = Path(__file__).with_name("keeper.py")
"""A script that runs a program and ends all that it started together with whoever asked for it."""

_PARENT_DEATH = 1
"""Linux's PR_SET_PDEATHSIG."""


_CONTROL = getattr(ctypes.CDLL(None), "prctl", None)
"""Looked up here, since between fork and exec nothing may be loaded."""


def end_with_parent(by: int = signal.SIGKILL) -> None:
    """Called in a child process that the main thread started: it gets this signal when its parent ends.

    Systems other than Linux cannot send it, so the child watches its parent there.
    """
    if _CONTROL is None or _CONTROL(_PARENT_DEATH, by) != 0:
        watch_parent(os.getppid())


def watch_parent(parent: int) -> None:
    """Called in a child process that any thread started: exits within a second of the parent's end.

    Linux's signal would come when the *thread* that started the child ends, and a pool's threads end before
    their processes. `parent` is a process id, so that a parent that ended before this call is noticed too.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def run_kept(words: Sequence[str], seconds: float) -> subprocess.CompletedProcess[bytes]:
    """Runs a program that ends, with all it started, after so long, or with this process, however it ends."""
    command = [sys.executable, str(KEEPER), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as keeper:
        try:
            said = keeper.communicate(timeout=seconds)
        except BaseException:
            keeper.terminate()
            raise
    return subprocess.CompletedProcess(words, keeper.returncode, *said)


class Local:
    """A pool of one process (loky, from joblib) for each job.

    One pool of many processes would break as a whole when one of them dies, and could not tell which item
    that one was running.
    """

    def __init__(self, jobs: int) -> None:
        self.window = jobs
        self._threads = ThreadPoolExecutor(jobs)
        self._mine = threading.local()
        self._pools: list[Any] = []

    def submit(self, function: Callable[[Any], Any], item: Any) -> Future[ItemOutcome[Any]]:
        """Runs the item when a process is free."""
        return self._threads.submit(self._run, function, item)

    def _run(self, function: Callable[[Any], Any], item: Any) -> ItemOutcome[Any]:
        pool = getattr(self._mine, "pool", None) or self._new_pool()
        try:
            answer: ItemOutcome[Any] = pool.submit(attempt, function, item).result()
        except BrokenExecutor:
            self._mine.pool = None
            self._pools.remove(pool)
            raise
        except Exception as error:  # something that cannot be pickled
            return ItemOutcome(0, error=text_of(error))
        return answer

    def _new_pool(self) -> Any:
        from joblib.externals.loky import ProcessPoolExecutor, process_executor

        process_executor.kill_process_tree = _end_tree
        self._mine.pool = pool = ProcessPoolExecutor(
            1, initializer=_prepare_worker, initargs=(os.getpid(),)
        )
        self._pools.append(pool)
        return pool

    def tend(self) -> None:
        """Does nothing: a broken pool raises when it is used."""

    def close(self) -> None:
        """Ends everything that was started for this engine."""
        for pool in list(self._pools):
            pool.shutdown(wait=True, kill_workers=True)
        self._threads.shutdown(cancel_futures=True)


def _end_tree(process: BaseProcess) -> None:
    """Ends a worker and all that it started.

    loky asks the program `pgrep` what that is, which is not installed everywhere and is ended by a second
    Ctrl-C; then its worker would go on, and the process that started it would wait for it.
    """
    assert process.pid is not None, "loky ends what it has started"
    for pid in (*descendants(process.pid), process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.join()


def _prepare_worker(parent: int) -> None:
    """Prepares a worker: Ctrl-C is left to its parent, and it ends when the parent is gone."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    watch_parent(parent)
    keep_pandas_out()
