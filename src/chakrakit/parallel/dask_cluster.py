"""Items on Dask."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from typing import Any

from chakrakit.parallel.address import reach, unreachable
from chakrakit.parallel.engine import cores
from chakrakit.parallel.outcome import Outcome, attempt


class Dask:
    """Dask's tasks: a scheduler at an address, or a cluster on this machine while it is needed."""

    def __init__(self, address: str, jobs: int | None) -> None:
        from distributed import Client

        self._jobs, self._cluster, self._open = jobs or cores(), None, ExitStack()
        if not address:
            self._cluster = self._local_cluster()
        reach("Dask", address)
        try:
            self._client = Client(self._cluster or address)
        except (OSError, ValueError) as error:
            raise unreachable("Dask", address, error) from None
        self.window = jobs or 2 * max(1, sum(self._client.ncores().values()))
        self._tasks = self._client.get_executor(pure=False)

    def _local_cluster(self) -> Any:
        """One thread per worker; a death is told at once, and its place is soon free to be filled."""
        import logging

        import dask
        from distributed import LocalCluster

        settings = {"scheduler.allowed-failures": 0, "deploy.lost-worker-timeout": "5s"}
        self._open.enter_context(
            dask.config.set({f"distributed.{name}": value for name, value in settings.items()})
        )
        return LocalCluster(
            n_workers=self._jobs,
            threads_per_worker=1,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,  # a death is told in its outcome
        )

    def submit(self, function: Callable[[Any], Any], item: Any) -> Future[Outcome[Any]]:
        """Runs the item somewhere on the cluster."""
        future: Future[Outcome[Any]] = self._tasks.submit(attempt, function, item)
        return future

    def tend(self) -> None:
        """A worker that is killed while it starts is given up by its nanny: put another in its place."""
        if self._cluster is not None:
            self._cluster.scale(self._jobs)

    def close(self) -> None:
        """Ends all that was started for it."""
        self._tasks.shutdown(wait=False)
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()
        self._open.close()
