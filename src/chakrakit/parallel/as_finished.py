"""Every item as it finishes; a worker that dies costs its own item alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing
from itertools import chain
from typing import Any, TypeVar

from chakrakit.parallel.engine import Engine
from chakrakit.parallel.outcome import Outcome, text_of
from chakrakit.parallel.starter import starter

BESIDE, ATTEMPTS = 2, 4
"""How often an item is tried whose worker dies: first beside others, then with nothing beside it.

Dask blames a death on all that the worker had been given, and may close a worker that is just coming
back; alone, and twice, an item dies of itself. An item that raises is not tried again.
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
) -> Iterator[Outcome[Value]]:
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


def _death(error: BaseException) -> str:
    return (
        f"its worker died {ATTEMPTS} times ({text_of(error).partition('. ')[0][:200]}); "
        "most often for want of memory: give it fewer jobs, or a larger machine"
    )
