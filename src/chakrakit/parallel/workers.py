"""One function on many items: values in the order of the items, or as they are finished."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from typing import Any, TypeVar

from chakrakit.errors import ChakraError, ConfigError, MissingExtra
from chakrakit.parallel.outcome import Engine, ItemOutcome, cores, text_of


def check_engine(engine: str) -> None:
    """Raises a ConfigError or MissingExtra if `each` could not use this engine."""
    starter(engine, None)


def starter(engine: str, jobs: int | None) -> Callable[[], Engine]:
    """A function that starts the engine; its name and packages are checked before it is called."""
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
    if find_spec({"ray": "ray", "dask": "distributed"}[name]) is None:
        raise MissingExtra(f"--engine {name}", name)
    if name == "ray":
        from chakrakit.parallel.clusters import Ray

        return lambda: Ray(address, jobs)
    from chakrakit.parallel.clusters import Dask

    return lambda: Dask(address, jobs)


BESIDE, ATTEMPTS = 2, 4
"""How often an item whose worker dies is tried: beside other items, then up to so often in all, alone.

Dask blames a death on every item the worker had been given, and may close a worker that is just coming
back. An item whose worker dies twice while nothing else runs is to blame itself. An item that raises is not
tried again.
"""

_PATIENCE = 3.0
"""Seconds without a finished item after which an engine is asked to look to its workers."""

Item = TypeVar("Item")
Value = TypeVar("Value")


def each(
    function: Callable[[Item], Value],
    items: Iterable[Item],
    engine: str = "local",
    jobs: int | None = None,
) -> Iterator[ItemOutcome[Value]]:
    """The outcome of every item, as they finish; `index` is its place among the items.

    `engine` is `local`, `ray`, `dask`, or the latter two with `:ADDRESS` of a running cluster. `jobs`
    is how many items run at once; by default one per core. An exception becomes an outcome with its text.
    When a worker dies, its item is tried again; the others never notice. Closing the iterator, or
    Ctrl-C, ends the workers.
    """
    start = starter(engine, jobs)
    return _each(function, enumerate(items), start)


def _each(
    function: Callable[[Any], Any], items: Iterator[tuple[int, Any]], start: Callable[[], Engine]
) -> Iterator[ItemOutcome[Any]]:
    first = next(items, None)
    if first is None:
        return  # without starting a cluster for nothing
    coming = chain([first], items)
    running: dict[Future[ItemOutcome[Any]], tuple[int, Any, int]] = {}
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
                    yield ItemOutcome(index, answer.value, answer.error)
                elif attempt < BESIDE:
                    submit(index, item, attempt + 1)
                elif attempt < ATTEMPTS:
                    suspects.append((index, item, attempt + 1))
                else:
                    yield ItemOutcome(index, error=_death(died), died=True)


def _death(error: BaseException) -> str:
    return (
        f"its worker died {ATTEMPTS} times ({text_of(error).partition('. ')[0][:200]}); "
        "most often for want of memory: give it fewer jobs, or a larger machine"
    )


@dataclass(frozen=True)
class Workers:
    """Where to run, as `each` takes it."""

    engine: str = "local"
    jobs: int | None = None


def spread(
    function: Callable[[Item], Value], items: Iterable[Item], workers: Workers | None = None
) -> Iterator[Value]:
    """The function's value for every item, in the order of the items.

    Without `workers` the items run in this process. The first item that fails ends the iteration: with its
    own exception in this process, with a ChakraError of the same text from a worker. Values that come before
    their turn wait in memory.
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


Progress = Callable[[int, int | None], None]
"""A function that is called with how many items are done and how many there are (None: not known)."""


def quiet(_done: int, _total: int | None) -> None:
    """Reports no progress."""
