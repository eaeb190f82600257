"""A claim about accuracy: what was measured elsewhere, what comes out here, and how far apart they are."""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np

from chakrakit import Machine, load_machine

T = TypeVar("T")
R = TypeVar("R")


class MissingDataError(Exception):
    """The data folder lacks a table that a claim needs."""


@cache
def machine_of(name: str) -> Machine:
    """A machine by name, loaded once."""
    return load_machine(name)


def each(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """The function of every item, as many at a time as the environment's ROWS says: one by default."""
    if (jobs := int(os.environ.get("ROWS") or 1)) == 1:
        return list(map(function, items))
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(function, items))


KEPT = "ACCURACY_KEPT"
"""Names the folder of what one run keeps for all of its sections, in the environment."""


def kept(name: str, made: Callable[[], R]) -> R:
    """What `made` gives, which one section of a run computes and the others read; its name is for one thing.

    Sections that ask for it meanwhile wait. Outside of a run it is computed.
    """
    if not (folder := os.environ.get(KEPT)):
        return made()
    path = Path(folder, name)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            path.write_bytes(pickle.dumps(made()))
        result: R = pickle.loads(path.read_bytes())
        return result


def need(data: Path, *parts: str) -> Path:
    """A file of the data folder."""
    path = data.joinpath(*parts)
    if not path.exists():
        raise MissingDataError(
            f"{Path(*parts)} is not there; DATA should be the folder of truth tables"
        )
    return path


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(str(c) for c in line) + " |" for line in lines)


def percent(value: float, signed: bool = False) -> str:
    """`3.4 %`, with its sign where that matters."""
    return f"{100 * value:{'+' if signed else ''}.1f} %"


def spread(errors: Sequence[float]) -> tuple[str, str, str]:
    """Median, 90th percentile and worst of the absolute errors; a dash where there are none."""
    if not len(errors):
        return "–", "–", "–"
    size = np.abs(np.array(errors))
    return percent(np.median(size)), percent(np.quantile(size, 0.9)), percent(size.max())
