"""Items on Ray."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from chakrakit.parallel.address import reach, unreachable
from chakrakit.parallel.engine import cores
from chakrakit.parallel.outcome import Outcome, attempt


class Ray:
    """Ray's tasks: a cluster at an address, or one on this machine for as long as it is needed."""

    def __init__(self, address: str, jobs: int | None) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray

        self._ray = ray
        self._own = not ray.is_initialized()
        if self._own:
            size = {} if address else {"num_cpus": jobs or cores(), "include_dashboard": False}
            reach("Ray", address)
            try:
                ray.init(address or "local", log_to_driver=False, logging_level="error", **size)
            except (OSError, RuntimeError, ValueError) as error:
                raise unreachable("Ray", address, error) from None
        self.window = jobs or 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._task = ray.remote(max_retries=0)(attempt)

    def submit(self, function: Callable[[Any], Any], item: Any) -> Future[Outcome[Any]]:
        """Runs the item somewhere on the cluster."""
        future: Future[Outcome[Any]] = self._task.remote(function, item).future()
        return future

    def tend(self) -> None:
        """Ray looks after its workers."""

    def close(self) -> None:
        """Ends all that was started for it."""
        if self._own:
            self._ray.shutdown()
