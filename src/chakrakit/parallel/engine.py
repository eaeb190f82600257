"""Engine: somewhere to run items, and how one is chosen by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from chakrakit.errors import ConfigError, MissingExtra
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


def check_engine(engine: str) -> None:
    """Raises a ConfigError or MissingExtra if `each` could not use it."""
    starter(engine, None)


def starter(engine: str, jobs: int | None) -> Callable[[], Engine]:
    """What starts an engine; that it can be is checked here, before there is anything to undo."""
    name, colon, address = engine.partition(":")
    if jobs is not None and jobs < 1:
        raise ConfigError(f"jobs is {jobs}; it must be 1 or more")
    if name == "local" and not colon:
        from chakrakit.parallel.local import Local

        return lambda: Local(jobs or cores())
    if name not in ("ray", "dask") or (colon and not address):
        raise ConfigError(
            f"no engine {engine!r}; there are local, ray, dask, ray:ADDRESS and dask:ADDRESS"
        )
    from importlib.util import find_spec

    if find_spec({"ray": "ray", "dask": "distributed"}[name]) is None:
        raise MissingExtra(f"--engine {name}", name)
    if name == "ray":
        from chakrakit.parallel.ray_cluster import Ray

        return lambda: Ray(address, jobs)
    from chakrakit.parallel.dask_cluster import Dask

    return lambda: Dask(address, jobs)


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
