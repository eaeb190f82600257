"""Traces of a workload, made once and shared by all points that need them, through a folder."""

from __future__ import annotations

import contextlib
from pathlib import Path

from chakrakit.errors import ChakraError
from chakrakit.studies.sweep.captured import Captured
from chakrakit.studies.sweep.points import content_key
from chakrakit.trace.sets import TraceSet
from chakrakit.trace.storage import read, write
from chakrakit.workloads.description import Workload
from chakrakit.workloads.generate import dry_run, generated


def traces_of(workload: Workload | Captured, cache: Path | None) -> TraceSet:
    """The traces, with tokens, bubble and bytes a rank needs in their card's `measured`.

    They are looked for in the cache, and left there. It only saves time: a folder that this machine
    does not have, a full disk or a damaged entry mean that the traces are made here.
    """
    if cache is None or not cache.is_dir():
        return _made(workload)
    place = cache / content_key(workload)
    if place.is_dir():
        with contextlib.suppress(ChakraError, OSError):
            return _whole(read(place))
    traces = _made(workload)
    with contextlib.suppress(ChakraError, OSError):
        write(traces, place)
    return traces


def _whole(traces: TraceSet) -> TraceSet:
    """Reads every body now: another worker may replace the files."""
    for number in range(traces.body_count):
        traces.body_at(number)
    return traces


def _made(workload: Workload | Captured) -> TraceSet:
    if isinstance(workload, Captured):
        return workload.traces()
    made = generated(workload)
    figures = dry_run(made)
    measured = {
        "tokens": made.tokens,
        "bubble_fraction": figures.bubble_fraction,
        "memory_bytes": max(c.memory["total"] for c in figures.per_rank),
    }
    traces = made.traces()
    return traces.with_card(traces.card.replace(measured=measured))
