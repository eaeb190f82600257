"""One point: its traces, its passes, its simulation, and the row that comes of it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import msgspec

from chakrakit.errors import ChakraError
from chakrakit.exploration.sweep.points import CapturedWorkload, StudyPoint, content_key
from chakrakit.exploration.sweep.served import ServedRow, ServedWorkload, measure_served
from chakrakit.results import Result
from chakrakit.simulator.engine import SimulationOptions
from chakrakit.simulator.results import RankSummary, SimulationSummary, simulate
from chakrakit.trace.sets import TraceSet
from chakrakit.trace.storage import read, write
from chakrakit.workloads.description import Workload
from chakrakit.workloads.generate import dry_run, generated

# --- traces, made once and shared by all points through a folder --------------------------------


def traces_of(workload: Workload | CapturedWorkload, cache: Path | None) -> TraceSet:
    """The traces, with tokens, bubble and bytes a rank needs in their card's `measured`.

    They are looked for in the cache, and left there. It only saves time: a folder that this machine
    does not have, a full disk or a damaged entry mean that the traces are made here.
    """
    if cache is None or not cache.is_dir():
        return _new_traces(workload)
    place = cache / content_key(workload)
    if place.is_dir():
        with contextlib.suppress(ChakraError, OSError):
            return _whole(read(place))
    traces = _new_traces(workload)
    with contextlib.suppress(ChakraError, OSError):
        write(traces, place)
    return traces


def _whole(traces: TraceSet) -> TraceSet:
    """Reads every body now: another worker may replace the files."""
    for number in range(traces.body_count):
        traces.body_at(number)
    return traces


def _new_traces(workload: Workload | CapturedWorkload) -> TraceSet:
    if isinstance(workload, CapturedWorkload):
        return workload.traces()
    programs = generated(workload)
    figures = dry_run(programs)
    measured = {
        "tokens": programs.tokens,
        "bubble_fraction": figures.bubble_fraction,
        "memory_bytes": max(c.memory["total"] for c in figures.per_rank),
    }
    traces = programs.traces()
    return traces.with_card(traces.card.replace(measured=measured))


class SimulatedRow(Result, msgspec.Struct, kw_only=True):
    """What a point comes to. Times of ranks are means over all of them."""

    ranks: int
    step_ns: float
    tokens_per_s: float | None
    """None after passes, which may have changed the work."""
    mfu: float | None
    compute_ns: float
    exposed_comm_ns: float
    idle_ns: float
    bubble_fraction: float
    """Of the pipeline's schedule by itself."""
    memory_bytes: int
    """Most that a rank of the generated workload needs."""
    fits: bool
    """Whether the machine's smallest device has as much."""
    energy_joules: float | None
    price: float | None
    rung: str = ""
    """Where the times of computation come from; one for all machines of a study."""
    step_low_ns: float | None = None
    """Where 90 of 100 measured steps should lie: from here to `step_high_ns`."""
    step_high_ns: float | None = None


def measure(point: StudyPoint, cache: Path | None = None) -> SimulatedRow | ServedRow:
    """Runs a point; generated traces are shared through `cache`."""
    if isinstance(point.workload, ServedWorkload):
        return measure_served(point.workload, point.machine.machine())
    traces = traces_of(point.workload, cache)
    about = traces.card.measured
    if point.passes:
        from chakrakit.passes.base import parse

        for spec in point.passes:
            traces = traces | parse(spec)
    machine = point.machine.machine()
    options = SimulationOptions(network=point.settings.network)
    summary = simulate(traces, machine, compute=point.settings.compute, options=options).summary
    room = min(device.memory for device in machine.devices)
    tokens = 0 if point.passes else about["tokens"]  # a captured script does not say
    return SimulatedRow(
        **_times(summary),
        tokens_per_s=tokens / (summary.makespan_ns * 1e-9) if tokens else None,
        bubble_fraction=about["bubble_fraction"],
        memory_bytes=about["memory_bytes"],
        fits=not room or about["memory_bytes"] <= room,
    )


def _times(summary: SimulationSummary) -> dict[str, Any]:
    return {
        "ranks": len(summary.ranks),
        "step_ns": summary.makespan_ns,
        "mfu": summary.mfu,
        "energy_joules": summary.energy_joules,
        "price": summary.price,
        "rung": summary.rung,
        "step_low_ns": summary.interval_ns[0] if summary.interval_ns else None,
        "step_high_ns": summary.interval_ns[1] if summary.interval_ns else None,
        **{
            name: mean(summary.ranks, name) for name in ("compute_ns", "exposed_comm_ns", "idle_ns")
        },
    }


def mean(ranks: list[RankSummary], name: str) -> float:
    """The mean of a figure over all ranks."""
    return float(sum(getattr(rank, name) for rank in ranks) / len(ranks))
