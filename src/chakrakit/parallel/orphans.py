"""Processes that end when the one that started them is gone, however it went."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time

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
