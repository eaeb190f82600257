"""What is to be replayed: a linked run, or PyTorch's own files, and of those one step."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from chakrakit.errors import ConfigError, TraceError, nearest
from chakrakit.sources.pytorch.linking import link
from chakrakit.sources.pytorch.read import identify
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import Run, TraceSet
from chakrakit.trace.storage import read


def load_traces(path: str) -> TraceSet:
    """A trace behind a path; files that PyTorch's profiler wrote are linked first."""
    place = Path(path)
    if place.is_file():
        recorded = identify(place) is not None
    else:
        recorded = place.is_dir() and not any(place.glob("*.et*")) and _has_recording(place)
    return link([place])[0] if recorded else read(path)


def _has_recording(folder: Path) -> bool:
    return any(identify(p) is not None for p in sorted(folder.rglob("*.json*")) if p.is_file())


def one_step(traces: TraceSet, step: int) -> dict[int, Trace]:
    """Each rank's rows of one step, with times in the nodes; all rows where no steps are marked."""
    found = {}
    for rank in traces.ranks:
        trace = traces.timed_trace(rank) if isinstance(traces, Run) else traces.trace(rank)
        if not len(trace):
            raise TraceError(f"rank {rank} has no nodes")
        found[rank] = _cut(trace, step, rank)
    return found


def _cut(trace: Trace, step: int, rank: int) -> Trace:
    numbers = trace.step
    known = np.unique(numbers[numbers >= 0])
    if step < 0:  # steps that were only found, since work repeats, are not cut apart unasked
        marked = len(known) > 1 and trace.has("step").any()
        return trace.select(numbers == known[-1]) if marked else trace
    if step not in known:
        raise ConfigError(
            f"--step {step}: no such step of rank {rank}; {nearest(step, known.tolist())}"
        )
    return trace.select(numbers == step)
