"""What functions of the public interface take: paths or objects, and workers by name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Literal, overload

from chakrakit.insight.rank import as_run, pairs, read_run
from chakrakit.parallel import Workers, check_engine
from chakrakit.trace.sets import Run, TraceSet
from chakrakit.trace.storage import read

Path_ = str | os.PathLike[str]
"""A path, as text or as an object."""
Traces = Path_ | TraceSet
"""A path of any kind that `read` takes, or what it gives."""
Faster = Mapping[str, float] | Iterable[str]
"""`{"compute": 2}`, or `["compute=2"]` as on the command line."""


@overload
def traces_of(traces: Traces, *, timed: Literal[True]) -> Run: ...


@overload
def traces_of(traces: Traces, *, timed: bool = False) -> TraceSet: ...


def traces_of(traces: Traces, *, timed: bool = False) -> TraceSet:
    """The traces behind a path, or as given; as a Run where times are needed."""
    if isinstance(traces, TraceSet):
        return as_run(traces) if timed else traces
    path = os.fspath(traces)
    return read_run(path) if timed else read(path)


def workers_of(engine: str | None, jobs: int | None) -> Workers | None:
    """Workers by the name of their engine; None for this process alone."""
    if engine is None and (jobs or 1) == 1:
        return None
    chosen = Workers(engine or "local", jobs)
    check_engine(chosen.engine)
    return chosen


def faster_of(faster: Faster) -> tuple[tuple[str, float], ...] | None:
    """Classes and factors to try; None where none are given."""
    given = tuple(faster.items()) if isinstance(faster, Mapping) else pairs(faster)
    return given or None
