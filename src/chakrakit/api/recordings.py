"""Traces from recordings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from chakrakit.api.inputs import Path_
from chakrakit.results import Facts
from chakrakit.sources.inputs import link as link_files
from chakrakit.sources.pytorch.linking import LinkOptions, LinkReport
from chakrakit.trace.sets import Run
from chakrakit.trace.storage import write


@dataclass(frozen=True, eq=False, repr=False)
class LinkedRun(Facts):
    """A linked run, and what was matched, inferred and left out. Unpacks as `run, report`."""

    run: Run
    report: LinkReport

    def facts(self) -> msgspec.Struct:
        """The report."""
        return self.report

    def __iter__(self) -> Iterator[Any]:
        return iter((self.run, self.report))

    def __getitem__(self, place: int) -> Any:
        return (self.run, self.report)[place]


def link(
    *inputs: Path_ | Iterable[Path_],
    output: Path_ | None = None,
    memory: float = 8.0,
    jobs: int = 0,
    engine: str | None = None,
    times: Iterable[Path_] = (),
    undilate: bool = False,
    as_recorded: bool = False,
) -> LinkedRun:
    """Link recordings of any number of ranks into a run.

    Parameters
    ----------
    inputs
        Files, or directories with those of all ranks: PyTorch's observer and Kineto, exports of Nsight
        Systems, rocprofv3's JSON, XLA's profiles, dumps of the flight recorder, NCCL Inspector's lines.
    output
        Where to write the run.
    memory
        GiB that ranks linked at the same time may take.
    jobs, engine
        How many processes, and where.
    times
        Kineto's files of the same program recorded without the observer, one per rank: they give the times.
    undilate
        Take out what recording cost the host even where nothing says how much that is.
    as_recorded
        Leave the times as recorded, with what recording cost.

    Returns
    -------
    The run and the report, which says what was matched, inferred and left out.

    Examples
    --------
    >>> run, report = ck.link("recording")  # doctest: +SKIP
    >>> run.analyze()  # doctest: +SKIP

    """
    spool = Path(output).absolute().parent if output is not None else None
    chosen = LinkOptions(
        times=tuple(Path(t) for t in times),
        undilate=undilate,
        memory_bytes=int(memory * 2**30),
        jobs=jobs,
        engine=engine,
        spool=spool,
        as_recorded=as_recorded,
    )
    run, report = link_files(list(_paths(inputs)), chosen)
    if output is not None:
        with run.uncached():
            write(run, output)
    return LinkedRun(run, report)


def _paths(inputs: Iterable[Any]) -> Iterator[Path]:
    """Paths, one by one; lists of them count as their entries."""
    for given in inputs:
        if isinstance(given, str | os.PathLike):
            yield Path(given)
        else:
            yield from _paths(given)
