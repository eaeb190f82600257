"""From what a command line says to Runs and options."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import ConfigError, DeadlockError, TraceError
from chakrakit.insight.rank.view import RankView
from chakrakit.sources import is_job_trace, read_job_trace
from chakrakit.trace.files import STDIO
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import PS_PER_NS, Card, Run, Times, TraceSet, run_of
from chakrakit.trace.storage import read
from chakrakit.trace.timing import Schedule, schedule

# Traces without times made into a run to look at: every rank scheduled by itself.


_UNIT_NS = 1_000


def scheduled(traces: TraceSet) -> tuple[Run, str]:
    """A run of traces that have no times, and a sentence on how it was made.

    Every node starts as soon as its dependencies and its lane (stream, engine, thread) allow, and
    takes its own duration; where a rank has no durations at all, 1 µs per node. Nobody waits for peers.
    """
    known: dict[tuple[int, float], Times] = {}
    bare = False
    times = {}
    for rank in traces.ranks:
        binding = traces.bindings[rank]
        key = (binding.body, binding.scale)
        if key not in known:
            trace = traces.trace(rank)
            bare = bare or not trace.own_ns.any()
            known[key] = _times(trace)
        times[rank] = known[key]
    how = (
        "1 µs per node where there are no durations" if bare else "with the durations in the trace"
    )
    return run_of(traces, times, tick_ps=PS_PER_NS), (
        f"This trace has no times. Shown is the order its dependencies allow, {how}, every rank by itself; "
        "simulate it (chakra simulate) for times that mean something."
    )


def _times(trace: Trace) -> Times:
    lengths = np.maximum(trace.own_ns, 0)
    if not lengths.any():
        lengths = np.full(len(trace), _UNIT_NS, np.int64)
    free = schedule(len(trace), trace.edges, lengths)
    found = _on_lanes(trace, lengths, free)
    return Times(found.start, found.end)


def _on_lanes(trace: Trace, lengths: I64, free: Schedule) -> Schedule:
    """One node at a time on a lane, in the order in which they could have begun."""
    lane, _ = RankView(0, trace, free.start, free.end, False).lanes
    place = np.arange(len(trace))
    if trace.graph.is_acyclic:
        # Of nodes that could begin at once, what others need goes first.
        place[trace.graph.topological_order()] = np.arange(len(trace))
    order = np.empty(len(trace), np.int64)
    order[np.lexsort((place, free.start))] = np.arange(len(trace))
    try:
        return schedule(len(trace), trace.edges, lengths, resource=lane, order=order)
    except DeadlockError:
        # Ends that wait for ends on their own lane cannot be serial.
        return free


def read_run(path: str) -> Run:
    """A run behind a path; traces whose nodes have times count as one."""
    found = read_job_trace(path) if is_job_trace(path) else as_run(read(path), path)
    return found.with_card(found.card.replace(name=name_of(found, path)))


def parse_ranks(text: str) -> list[int]:
    """The ranks of `--ranks 0,1,5`; none where nothing is said."""
    try:
        return [int(r) for r in text.split(",")] if text else []
    except ValueError:
        raise ConfigError(f"--ranks {text!r}: give numbers, as in 0,1,5") from None


def name_of(run: Run, path: str) -> str:
    """What its card calls a run; else what its path does."""
    unnamed = run.card.name == Card().name and path != STDIO
    return Path(path).name if unnamed else run.card.name


def as_run(traces: TraceSet, path: str = "") -> Run:
    """The traces as a run, with the times their nodes say."""
    if isinstance(traces, Run):
        return traces
    if traces.card.passes:
        raise TraceError(
            f"{path or traces!r} was changed ({', '.join(traces.card.passes)}) and has no times of its own "
            "yet: simulate it first (chakra simulate -o RUN)"
        )
    run = Run(traces.bodies, traces.bindings, traces.groups, traces.card)
    if not any(run.body(rank).is_timed for rank in run.ranks[:1]):
        raise TraceError(
            f"{path or traces!r} has no times: link a recording (chakra link) or simulate it "
            "(chakra simulate -o RUN) first"
        )
    return run


def pairs(given: Iterable[str]) -> tuple[tuple[str, float], ...]:
    """`what=k` texts as pairs."""
    out = []
    for text in given:
        what, equals, factor = text.rpartition("=")
        try:
            out.append((what, float(factor)))
        except ValueError:
            equals = ""
        if not equals or not what:
            raise ConfigError(f"--faster {text!r}: give WHAT=K, as in compute=2")
    return tuple(out)


def facts_of(run: Run, path: str = "") -> dict[str, str]:
    """Lines about where a run comes from."""
    facts = {"": path} if path else {}
    facts["ranks:"] = f"{len(run):,}" + (f" of {run.world_size:,}" if run.missing_ranks else "")
    if run.card.tool:
        facts["made by"] = run.card.tool
    engine = run.card.settings.get("engine")
    if engine:
        facts["engine:"] = str(engine)
    return facts
