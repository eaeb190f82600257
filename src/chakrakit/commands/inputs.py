"""Inputs that commands share: traces as paths or objects, workers by name, pairs and lists as text."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypedDict, overload

from chakrakit.commands.options import Option

if TYPE_CHECKING:
    from chakrakit.parallel import Workers
    from chakrakit.trace.sets import Run, TraceSet

    Traces: TypeAlias = str | os.PathLike[str] | TraceSet
    """A path of any kind that `read` takes, or what it gives."""

Path_ = str | os.PathLike[str]
"""A path, as text or as an object."""
Pairs = Mapping[Any, Any] | Iterable[str]
"""`{"all-reduce": "ring"}`, or `["all-reduce=ring"]` as on the command line."""
Progress = Callable[[int, int | None], None]
"""Called with what is done and, where that is known, with what there is in all."""


class ProgressOption(TypedDict, total=False):
    """How far the work has come, which commands draw as a bar."""

    progress: Annotated[
        Progress | None,
        Option(
            "Called with how much is done, and of how much, or None where that is not known.",
            None,
            in_shell=False,
            on_card=False,
        ),
    ]


class EngineOption(TypedDict, total=False):
    """Where the work is done."""

    engine: Annotated[
        str | None,
        Option(
            "Spread the work over processes here, or over a cluster.",
            None,
            metavar="local|ray[:ADDR]|dask[:ADDR]",
            on_card=False,
        ),
    ]


class WorkerOptions(EngineOption, total=False):
    """Where the work is done, and by how many."""

    jobs: Annotated[
        int | None,
        Option(
            "Workers at once, one rank each; by default one per core with --engine, else none.",
            None,
            metavar="N",
            least=1,
            on_card=False,
        ),
    ]


@overload
def traces_of(traces: Traces, *, timed: Literal[True]) -> Run: ...
@overload
def traces_of(traces: Traces, *, timed: bool = False) -> TraceSet: ...
def traces_of(traces: Traces, *, timed: bool = False) -> TraceSet:
    """The traces behind a path, or as given; as a Run where times are needed."""
    from chakrakit.commands.opening import opened
    from chakrakit.trace.sets import TraceSet
    from chakrakit.trace.storage import read

    if not timed:
        return traces if isinstance(traces, TraceSet) else read(opened(traces))
    from chakrakit.insight.rank import as_run, read_run

    return as_run(traces) if isinstance(traces, TraceSet) else read_run(opened(traces))


def workers_of(options: WorkerOptions) -> Workers | None:
    """Workers by the name of their engine; None for this process alone."""
    from chakrakit.parallel import Workers, check_engine

    engine, jobs = options["engine"], options["jobs"]
    if engine is None and (jobs or 1) == 1:
        return None
    workers = Workers(engine or "local", jobs)
    check_engine(workers.engine)
    return workers


def progress_of(options: ProgressOption) -> Progress:
    """Returns the function to call with the progress; one that does nothing where none was given."""
    from chakrakit.parallel import quiet

    return options["progress"] or quiet


def pairs_of(texts: Iterable[str]) -> dict[str, str]:
    """`["all-reduce=ring"]` as a mapping."""
    pairs = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not (key and sign and value):
            raise ValueError("write it as LEFT=RIGHT")
        pairs[key] = value
    return pairs


def mapping_of(pairs: Pairs) -> Mapping[Any, Any]:
    """Returns pairs that were parsed to a mapping; no pairs, an empty tuple, become an empty one."""
    return pairs if isinstance(pairs, Mapping) else {}


def words_of(text: str) -> list[str]:
    """`a,b` as a list."""
    return [part.strip() for part in text.split(",")] if text else []


def numbers_of(text: str) -> list[int]:
    """`1,2,4` as whole numbers."""
    try:
        return [int(part) for part in words_of(text)]
    except ValueError:
        raise ValueError("give whole numbers with commas, like 1,2,4") from None


def factors_of(text: str) -> list[float]:
    """`1,0.5` as numbers."""
    try:
        return [float(part) for part in words_of(text)]
    except ValueError:
        raise ValueError("give numbers with commas, like 1,0.5") from None


def read_clock_texts(texts: Iterable[str]) -> dict[str, float]:
    """`["1410"]` or `["backward=1200"]` as MHz by phase."""
    from chakrakit.machines.device import read_clocks

    return read_clocks(tuple(texts))
