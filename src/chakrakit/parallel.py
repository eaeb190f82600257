"""The same function on many items: on this machine's cores, on Ray or on Dask.

    for outcome in each(simulate_one, points, engine="ray:10.0.0.1:6379"):
        keep(outcome.index, outcome.value, outcome.error)

Every engine runs one item a task, so that a worker which dies takes nothing but its own item with it.
Functions and items travel pickled; on a cluster, chakrakit and the files an item names must be there too.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, Protocol, TypeVar

from chakrakit.errors import ChakraError, ConfigError, MissingExtra

BESIDE, ATTEMPTS = 2, 4
"""How often an item is tried whose worker dies: first beside others, then with nothing beside it.

Dask blames a death on all that the worker had been given, and may close a worker that is just coming
back; alone, and twice, an item dies of itself. An item that raises is not tried again.
"""

_PATIENCE = 3.0
"""Seconds without a finished item after which an engine is asked to look to its workers."""

Item = TypeVar("Item")
Value = TypeVar("Value")


@dataclass(frozen=True)
class Outcome(Generic[Value]):
    """What became of one item: a value, or the text of its error."""

    index: int
    value: Value | None = None
    error: str | None = None
    died: bool = False
    """Whether the error is that its worker died, and not what the item did."""


class _Engine(Protocol):
    """Somewhere to run: a future's exception means that the worker died, not that the item failed."""

    window: int
    """Most items to have submitted and not finished."""

    def submit(self, function: Callable[[Any], Any], item: Any) -> Future[Outcome[Any]]: ...

    def tend(self) -> None:
        """Called every few seconds while nothing finishes."""

    def close(self) -> None: ...


def each(
    function: Callable[[Item], Value],
    items: Iterable[Item],
    engine: str = "local",
    jobs: int | None = None,
) -> Iterator[Outcome[Value]]:
    """The outcome of every item, as they finish; `index` is its place among the items.

    `engine` is `local`, `ray`, `dask`, or the latter two with `:ADDRESS` of a running cluster. `jobs`
    is how many items run at once; by default one a core. An exception becomes an outcome with its text.
    When a worker dies, its item is tried again; the others never notice. Closing the iterator, or
    Ctrl-C, ends the workers.
    """
    start = _starter(engine, jobs)
    return _each(function, enumerate(items), start)


def check_engine(engine: str) -> None:
    """Raises a ConfigError or MissingExtra if `each` could not use it."""
    _starter(engine, None)


def _each(
    function: Callable[[Any], Any], items: Iterator[tuple[int, Any]], start: Callable[[], _Engine]
) -> Iterator[Outcome[Any]]:
    first = next(items, None)
    if first is None:
        return  # without starting a cluster for nothing
    coming = chain([first], items)
    running: dict[Future[Outcome[Any]], tuple[int, Any, int]] = {}
    suspects: list[tuple[int, Any, int]] = []
    with closing(start()) as engine:

        def submit(index: int, item: Any, attempt: int) -> None:
            running[engine.submit(function, item)] = index, item, attempt

        while True:
            while len(running) < engine.window and (task := next(coming, None)) is not None:
                submit(*task, 1)
            if not running and suspects:
                submit(*suspects.pop())
            if not running:
                return
            finished = wait(running, timeout=_PATIENCE, return_when=FIRST_COMPLETED).done
            if not finished:
                engine.tend()
            for future in finished:
                index, item, attempt = running.pop(future)
                died = future.exception()
                if died is None:
                    answer = future.result()
                    yield Outcome(index, answer.value, answer.error)
                elif attempt < BESIDE:
                    submit(index, item, attempt + 1)
                elif attempt < ATTEMPTS:
                    suspects.append((index, item, attempt + 1))
                else:
                    yield Outcome(index, error=_death(died), died=True)


def _attempt(function: Callable[[Any], Any], item: Any) -> Outcome[Any]:
    """Runs in the worker: an item's own error is an answer like any other."""
    try:
        return Outcome(0, function(item))
    except Exception as error:
        return Outcome(0, error=_text(error))


def _text(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, ChakraError) else f"{type(error).__name__}: {text}"


def _death(error: BaseException) -> str:
    return (
        f"its worker died {ATTEMPTS} times ({_text(error).partition('. ')[0][:200]}); "
        "most often for want of memory: give it fewer jobs, or a larger machine"
    )


def _starter(engine: str, jobs: int | None) -> Callable[[], _Engine]:
    """What starts an engine; that it can be is checked here, before there is anything to undo."""
    name, colon, address = engine.partition(":")
    if jobs is not None and jobs < 1:
        raise ConfigError(f"jobs is {jobs}; it must be 1 or more")
    if name == "local" and not colon:
        return lambda: _Local(jobs or cores())
    if name not in ("ray", "dask") or (colon and not address):
        raise ConfigError(
            f"no engine {engine!r}; there are local, ray, dask, ray:ADDRESS and dask:ADDRESS"
        )
    from importlib.util import find_spec

    if find_spec({"ray": "ray", "dask": "distributed"}[name]) is None:
        raise MissingExtra(f"--engine {name}", name)
    if name == "ray":
        return lambda: _Ray(address, jobs)
    return lambda: _Dask(address, jobs)


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Local:
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
        return self._threads.submit(self._run, function, item)

    def _run(self, function: Callable[[Any], Any], item: Any) -> Outcome[Any]:
        pool = getattr(self._mine, "pool", None) or self._new_pool()
        try:
            answer: Outcome[Any] = pool.submit(_attempt, function, item).result()
        except BrokenExecutor:
            self._mine.pool = None
            self._pools.remove(pool)
            raise
        except Exception as error:  # something that cannot be pickled
            return Outcome(0, error=_text(error))
        return answer

    def _new_pool(self) -> Any:
        from joblib.externals.loky import ProcessPoolExecutor

        self._mine.pool = pool = ProcessPoolExecutor(1, initializer=_outlive_nothing)
        self._pools.append(pool)
        return pool

    def tend(self) -> None:
        """A pool that breaks says so itself."""

    def close(self) -> None:
        for pool in list(self._pools):
            pool.shutdown(wait=True, kill_workers=True)
        self._threads.shutdown(cancel_futures=True)


def _outlive_nothing() -> None:
    """A worker leaves Ctrl-C to its parent, and ends when the parent is gone, however it went."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()

    def watch() -> None:
        import time

        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _Ray:
    """Ray's tasks: a cluster at an address, or one on this machine for as long as it is needed."""

    def __init__(self, address: str, jobs: int | None) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray

        self._ray = ray
        self._own = not ray.is_initialized()
        if self._own:
            size = {} if address else {"num_cpus": jobs or cores(), "include_dashboard": False}
            _reach("Ray", address)
            try:
                ray.init(address or "local", log_to_driver=False, logging_level="error", **size)
            except (OSError, RuntimeError, ValueError) as error:
                raise _unreachable("Ray", address, error) from None
        self.window = jobs or 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._task = ray.remote(max_retries=0)(_attempt)

    def submit(self, function: Callable[[Any], Any], item: Any) -> Future[Outcome[Any]]:
        future: Future[Outcome[Any]] = self._task.remote(function, item).future()
        return future

    def tend(self) -> None:
        """Ray looks after its workers."""

    def close(self) -> None:
        if self._own:
            self._ray.shutdown()


class _Dask:
    """Dask's tasks: a scheduler at an address, or a cluster on this machine while it is needed."""

    def __init__(self, address: str, jobs: int | None) -> None:
        from distributed import Client

        self._jobs, self._cluster, self._open = jobs or cores(), None, ExitStack()
        if not address:
            self._cluster = self._local_cluster()
        _reach("Dask", address)
        try:
            self._client = Client(self._cluster or address)
        except (OSError, ValueError) as error:
            raise _unreachable("Dask", address, error) from None
        self.window = jobs or 2 * max(1, sum(self._client.ncores().values()))
        self._tasks = self._client.get_executor(pure=False)

    def _local_cluster(self) -> Any:
        """One thread a worker; a death is told at once, and its place is soon free to be filled."""
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
        future: Future[Outcome[Any]] = self._tasks.submit(_attempt, function, item)
        return future

    def tend(self) -> None:
        """A worker that is killed while it starts is given up by its nanny: put another in its place."""
        if self._cluster is not None:
            self._cluster.scale(self._jobs)

    def close(self) -> None:
        self._tasks.shutdown(wait=False)
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()
        self._open.close()


def _reach(name: str, address: str) -> None:
    """Refuses a HOST:PORT where nobody listens: Ray would try it for many minutes."""
    import socket

    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdigit():
        return  # `auto`, or a file that Dask reads
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(name, address, error) from None


def _unreachable(name: str, address: str, error: Exception) -> ConfigError:
    token = " (a cluster that wants a token: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN)"
    return ConfigError(
        f"no {name} cluster answers at {address or 'this machine'}: {' '.join(str(error).split())[:300]}; "
        f"check the address{token if name == 'Ray' else ''}, or leave it out to start one here"
    )


# --- in order -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Workers:
    """Where to run, as `each` takes it."""

    engine: str = "local"
    jobs: int | None = None


def spread(
    function: Callable[[Item], Value], items: Iterable[Item], workers: Workers | None = None
) -> Iterator[Value]:
    """What the function gives for every item, in the order of the items.

    In this process without `workers`. An item that fails ends it: with its own exception here, with
    a ChakraError of the same text from a worker. What comes before its turn waits here.
    """
    if workers is None:
        yield from map(function, items)
        return
    early: dict[int, Value] = {}
    turn = 0
    with closing(each(function, items, workers.engine, workers.jobs)) as outcomes:  # type: ignore[type-var]
        for outcome in outcomes:
            if outcome.error is not None:
                raise ChakraError(outcome.error)
            early[outcome.index] = outcome.value  # type: ignore[assignment]
            while turn in early:
                yield early.pop(turn)
                turn += 1
