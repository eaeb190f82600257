"""Ray and Dask as engines: items run on a cluster at an address, or on one that is started here."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from typing import Any

from chakrakit.errors import ConfigError
from chakrakit.parallel.outcome import ItemOutcome, attempt, cores


def reach(name: str, address: str) -> None:
    """Raises a ConfigError if nothing listens at HOST:PORT; Ray would go on trying for many minutes."""
    import socket

    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdecimal():
        return  # `auto`, or a file that Dask reads
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise unreachable(name, address, error) from None


def unreachable(name: str, address: str, error: Exception) -> ConfigError:
    """The error for a cluster that does not answer, with what to try."""
    token = " (a cluster that wants a token: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN)"
    return ConfigError(
        f"no {name} cluster answers at {address or 'this machine'}: {' '.join(str(error).split())[:300]}; "
        f"check the address{token if name == 'Ray' else ''}, or leave it out to start one here"
    )


class Dask:
    """Runs items as Dask tasks: on the scheduler at an address, or on a cluster it starts here and ends."""

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
        """A cluster on this machine, one thread per worker; a dead worker is reported at once."""
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
            silence_logs=logging.CRITICAL,  # an outcome reports it
        )

    def submit(self, function: Callable[[Any], Any], item: Any) -> Future[ItemOutcome[Any]]:
        """Runs the item somewhere on the cluster."""
        future: Future[ItemOutcome[Any]] = self._tasks.submit(attempt, function, item)
        return future

    def tend(self) -> None:
        """Replaces workers that were killed while they started, which Dask gives up."""
        if self._cluster is not None:
            self._cluster.scale(self._jobs)

    def close(self) -> None:
        """Ends everything that was started for this engine."""
        self._tasks.shutdown(wait=False)
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()
        self._open.close()


class Ray:
    """Runs items as Ray tasks: on the cluster at an address, or on one it starts here and ends."""

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

    def submit(self, function: Callable[[Any], Any], item: Any) -> Future[ItemOutcome[Any]]:
        """Runs the item somewhere on the cluster."""
        future: Future[ItemOutcome[Any]] = self._task.remote(function, item).future()
        return future

    def tend(self) -> None:
        """Does nothing: Ray replaces its workers itself."""

    def close(self) -> None:
        """Ends everything that was started for this engine."""
        if self._own:
            self._ray.shutdown()
