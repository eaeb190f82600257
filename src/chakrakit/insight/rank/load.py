"""Runs and options from command lines; also runs of traces without times, every rank scheduled alone."""

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
from chakrakit.trace.sets import PS_PER_NS, Card, Run, Times, TraceSet, run_of, subject_of
from chakrakit.trace.storage import read
from chakrakit.trace.timing import Schedule, schedule

_UNIT_NS = 1_000
"""How long every node lasts where a trace has no durations: 1 µs, the unit of times in a trace file."""


def scheduled(traces: TraceSet) -> tuple[Run, str]:
    """A run of traces that have no times, and a sentence that says how it was made.

    Every node starts as soon as its dependencies and its lane (stream, engine, thread) allow, and
    takes its own duration; where a rank has no durations at all, 1 µs per node. Nobody waits for peers.
    """
    times_of: dict[tuple[int, float], Times] = {}
    bare = False
    times = {}
    for rank in traces.ranks:
        binding = traces.bindings[rank]
        key = (binding.body, binding.scale)
        if key not in times_of:
            trace = traces.trace(rank)
            bare = bare or not trace.own_ns.any()
            times_of[key] = _times(trace)
        times[rank] = times_of[key]
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
    placed = _on_lanes(trace, lengths, free)
    return Times(placed.start, placed.end)


def _on_lanes(trace: Trace, lengths: I64, free: Schedule) -> Schedule:
    """A schedule with one node at a time on each lane, in the order in which they could have begun."""
    lane, _ = RankView(0, trace, free.start, free.end, False).lanes
    place = np.arange(len(trace))
    if trace.graph.is_acyclic:
        # Of nodes that could begin at the same time, those that others depend on go first.
        place[trace.graph.topological_order()] = np.arange(len(trace))
    order = np.empty(len(trace), np.int64)
    order[np.lexsort((place, free.start))] = np.arange(len(trace))
    try:
        return schedule(len(trace), trace.edges, lengths, resource=lane, order=order)
    except DeadlockError:
        # Rows whose ends wait for ends on the same lane cannot run one after the other.
        return free


def read_run(path: str) -> Run:
    """Reads the run at a path; traces whose nodes have times count as a run."""
    run = read_job_trace(path) if is_job_trace(path) else _run_of(read(path), path)
    return run.with_card(run.card.replace(name=name_of(run, path)))


def _run_of(traces: TraceSet, path: str) -> Run:
    """The traces as a run; a workload of another tool, which never has times, as its dependencies allow."""
    if isinstance(traces, Run):
        return as_run(traces, path)
    from chakrakit.sources import WORKLOAD_TOOLS  # loads every reader of recordings

    if traces.card.tool not in WORKLOAD_TOOLS:
        return as_run(traces, path)
    run, note = scheduled(traces)
    return run.with_card(run.card.replace(settings={**run.card.settings, "scheduled": note}))


def parse_ranks(text: str) -> list[int]:
    """The ranks of `--ranks 0,1,5`; an empty list for an empty text."""
    try:
        return [int(r) for r in text.split(",")] if text else []
    except ValueError:
        raise ConfigError(f"--ranks {text!r}: give numbers, as in 0,1,5") from None


def name_of(run: Run, path: str) -> str:
    """The name of a run by its card, or by its path if the card has none."""
    unnamed = run.card.name == Card().name and path != STDIO
    return Path(path).name if unnamed else run.card.name


def as_run(traces: TraceSet, path: str = "") -> Run:
    """The traces as a run with the times of their nodes; raises TraceError if they have none."""
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


def pairs(texts: Iterable[str]) -> tuple[tuple[str, float], ...]:
    """Reads texts such as `compute=2` as pairs of a selector and a factor."""
    out = []
    for text in texts:
        selector, equals, factor = text.rpartition("=")
        try:
            out.append((selector, float(factor)))
        except ValueError:
            equals = ""
        if not equals or not selector:
            raise ConfigError(f"--faster {text!r}: give WHAT=K, as in compute=2")
    return tuple(out)


def _memory_verdict(run: Run) -> str:
    """Whether the highest peak of a simulated rank fits its device; "" where the run does not say."""
    has, held = run.card.settings.get("device_memory_bytes"), run.counters.get("memory")
    if not isinstance(has, int) or held is None or not held.num_rows:
        return ""
    needs = int(np.max(held.column("bytes").to_numpy()))
    verdict = "fits" if needs <= has else "DOES NOT FIT"
    return f"{verdict}, {needs / 2**30:,.1f} of {has / 2**30:,.1f} GiB"


def facts_of(run: Run, path: str = "") -> dict[str, str]:
    """Labels and texts that say where a run comes from."""
    facts = {"": path} if path else {}
    facts |= {f"{label}:": text for label, text in subject_of(run.card).items()}
    if verdict := _memory_verdict(run):
        facts["memory:"] = verdict
    facts["ranks:"] = f"{len(run):,}" + (f" of {run.world_size:,}" if run.missing_ranks else "")
    if run.card.tool:
        facts["made by"] = run.card.tool
    engine = run.card.settings.get("engine")
    if engine:  # one that serves says all its settings
        facts["engine:"] = str(engine.get("name", "")) if isinstance(engine, dict) else str(engine)
    return facts
