"""Engine: somewhere to run items."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from chakrakit.parallel.outcome import Outcome


class Engine(Protocol):
    """Somewhere to run: a future's exception means that the worker died, not that the item failed."""

    window: int
    """Most items to have submitted and not finished."""

    def submit(self, function: Callable[[Any], Any], item: Any) -> Future[Outcome[Any]]:
        """Runs an item; an exception of the future is the death of its worker."""

    def tend(self) -> None:
        """Called every few seconds while nothing finishes."""

    def close(self) -> None:
        """Ends all that was started."""


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
