"""The energy of a simulation's devices by class of work, with clocks lowered to stay within power limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from chakrakit.arrays import F64, I8, I64, Mask
from chakrakit.errors import ConfigError
from chakrakit.machines.device import (
    COMPUTED,
    PICO,
    Clocks,
    Costs,
    Device,
    Draw,
    Draws,
    InFramework,
    PowerLimited,
    WorkModel,
    activity_of,
)
from chakrakit.machines.fabric import Machine
from chakrakit.passes.base import classes_of, coded
from chakrakit.simulator.engine import COMM, COMPUTE, NativeSimulation, Outcome, SimulationOptions
from chakrakit.trace.model import Trace
from chakrakit.trace.placement import on_host
from chakrakit.trace.sets import TraceSet
from chakrakit.trace.timing import Intervals

Kinds = tuple[list[str], I64]
"""The classes of a program's rows, and the number of each row's."""
IDLE = "idle"
_NEARLY = 1.02
"""Figures within this factor count as equal: clocks are searched for, and waits estimated."""
LIMITER_SECONDS = 1.0
"""What a limiter averages power over. Assumed: NVML's readings of such devices are means over a second. A
longer wait saves no more than this for the work after it."""
_CLOSE = 0.995
"""A device that computes for this share of the run counts as always busy: waiting for the rest would change
its clock by less than the run is accurate."""


@dataclass(frozen=True)
class Energy:
    """The energy of all devices: joules by class of work, and the lowest and highest clock of any device."""

    by_class: dict[str, float]
    clock_mhz: float | None = None
    highest_clock_mhz: float | None = None

    @property
    def joules(self) -> float:
        """The energy of all classes."""
        return float(sum(self.by_class.values()))


def run_within_limits(
    traces: TraceSet, machine: Machine, options: SimulationOptions
) -> tuple[Outcome, PowerLimited]:
    """Simulates with clocks within the devices' power limits; returns the outcome and these clocks.

    The first simulation assumes that devices never wait. Where they do and a limit applies, a second one
    uses the waits of the first.
    """
    clocks = options.clocks
    clocks.check_phases(_phases(traces) if clocks.mhz else set())
    kernels, within = _apart(options.work)
    kernels = Remembered(kernels)
    limit = PowerLimited(kernels, clocks=clocks)
    simulation = NativeSimulation(traces, machine, replace(options, work=within(limit)))
    outcome = simulation.run()
    if limit.lowest_share == 1.0 or (clocks.mhz and not _limited(machine, clocks)):
        return outcome, limit
    waits = _waits(outcome)
    if max(waits.values()) > (1 - _CLOSE) * outcome.makespan_ps * PICO:
        limit = PowerLimited(kernels, lambda trace: waits.get(id(trace), 0.0), clocks)
        outcome = simulation.run_again(within(limit), outcome)
    return outcome, limit


class Remembered:
    """A work model that computes the costs of a trace on a device once."""

    def __init__(self, work: WorkModel) -> None:
        self.work, self.name = work, work.name
        self._costs: dict[tuple[int, int], tuple[Trace, Costs]] = {}

    def costs(self, trace: Trace, device: Device) -> Costs:
        """The work model's costs."""
        key = id(trace), id(device)
        if key not in self._costs:
            # The trace is kept too, so that no other one gets its id().
            self._costs[key] = trace, self.work.costs(trace, device)
        return self._costs[key][1]


def _apart(work: WorkModel) -> tuple[WorkModel, Callable[[WorkModel], WorkModel]]:
    """The kernels of a work model, and what adds a framework to them.

    What a framework adds is more kernels, which draw as much power; it does not raise the clock.
    """
    if isinstance(work, InFramework):
        return work.work, lambda limited: InFramework(limited, work.framework)
    return work, lambda limited: limited


def _phases(traces: TraceSet) -> set[str]:
    """The phases that nodes of any body name."""
    return {p for b in range(traces.body_count) for p in traces.body_at(b).texts("phase")[1]}


def clock_notes(outcome: Outcome, machine: Machine, limit: PowerLimited | None) -> list[str]:
    """Says where clocks or a power limit that were asked for change nothing, or more than was asked."""
    if limit is None or not limit.clocks:
        return []
    clocks = limit.clocks
    used = sorted({int(machine.device_of[d]) for d in outcome.device_of.tolist()})
    notes = clocks.cap_notes(machine.devices[i] for i in used)
    if kept := _measured_share(outcome):
        notes.append(
            f"warning: {kept:.0%} of the devices' time was measured and keeps the clock it was measured at"
        )
    # The room is there if the limiter's mean is over more than a phase, which nobody measured.
    notes += [
        f"warning: the power limit of {name} holds for the mean of the run, in which locked phases leave "
        f"room: the others run at up to {raised:,.0f} MHz instead of {alone:,.0f}; to compare energy at "
        f"the same clock, lock them too (--clock {int(alone)} beside the clocks of phases)"
        for name, (alone, raised) in limit.raised.items()
    ]
    return notes


def _measured_share(outcome: Outcome) -> float:
    """The share of the devices' computing time that no clock changes."""
    times = np.zeros(2)
    for c, count in enumerate(np.bincount(outcome.classes.rank).tolist()):
        program, rows = outcome.program(c), outcome.rows(c)
        computes = (program.kind == COMPUTE) & ~on_host(program.trace)
        computed = np.isin(outcome.sources[rows], COMPUTED)
        times += count * np.bincount(computed, outcome.durations[rows] * computes, 2)
    return float(times[0] / times.sum()) if times.sum() else 0.0


def _limited(machine: Machine, clocks: Clocks) -> bool:
    """Whether any device has a power limit besides its locked clock."""
    return any(clocks.capped(device).power for device in machine.devices)


def _waits(outcome: Outcome) -> dict[int, float]:
    """The fewest seconds in which a device of each trace computes nothing, by the trace's id().

    Of a long wait only what a limiter still remembers counts: bubbles of a large pipeline leave nothing over
    for the seconds of work between them.
    """
    seconds_by_trace: dict[int, float] = {}
    longest = round(LIMITER_SECONDS / PICO)
    for c in range(outcome.classes.count):
        program, rows = outcome.program(c), outcome.rows(c)
        works = program.kind == COMPUTE
        busy = Intervals.of(outcome.start[rows][works], outcome.end[rows][works])
        idle = busy.gaps(0, outcome.makespan_ps)
        rest = float(np.minimum(idle.end - idle.start, longest).sum()) * PICO
        seconds_by_trace[id(program.trace)] = min(
            rest, seconds_by_trace.get(id(program.trace), rest)
        )
    return seconds_by_trace


def energy_of(outcome: Outcome, machine: Machine, limit: PowerLimited) -> Energy | None:
    """The energy of the run; None where no device has a power limit."""
    copies = np.bincount(outcome.classes.rank, minlength=outcome.classes.count)
    total: dict[str, float] = {}
    draws: list[Draw | Draws] = []
    kinds: dict[int, Kinds] = {}
    for c, count in enumerate(copies.tolist()):
        device = limit.clocks.capped(class_device(outcome, machine, c))
        if not device.power:
            continue
        program, work = outcome.program(c), class_work(outcome, c)
        if id(program) not in kinds:  # classes of ranks share programs
            kinds[id(program)] = coded(classes_of(program.trace))
        draw = limit.draw(program.trace, class_device(outcome, machine, c))
        joules_by_kind = joules_of(work, outcome.makespan_ps, device, draw, kinds[id(program)])
        draws += [draw] if draw else []
        for name, joules in joules_by_kind.items():
            total[name] = total.get(name, 0.0) + count * joules
    lowest = min((draw.clock_mhz for draw in draws), default=None)
    highest = max((draw.highest_clock_mhz for draw in draws), default=None)
    return Energy(total, lowest, highest) if total else None


@dataclass(frozen=True)
class DeviceWork:
    """What one device did: rows of a trace, what each is to a simulation, and when it ran, in picoseconds."""

    trace: Trace
    kind: I8
    start: I64
    end: I64

    @property
    def works(self) -> Mask:
        """Rows in which the device computes or communicates."""
        return np.isin(self.kind, (COMPUTE, COMM))

    @property
    def seconds(self) -> F64:
        """How long the device works for each row."""
        return np.where(self.works, (self.end - self.start) * PICO, 0.0)

    @property
    def busy(self) -> float:
        """Seconds in which any row runs."""
        works = self.works
        return Intervals.of(self.start[works], self.end[works]).total * PICO


@dataclass(frozen=True, eq=False)
class DeviceDraw:
    """What one device draws: `base` watts all the time, and `extra` joules for each row."""

    base: float
    most: float
    """Watts that its limiter allows."""
    extra: F64


def drawn(
    work: DeviceWork, makespan_ps: int, device: Device, draw: Draw | Draws | None
) -> DeviceDraw:
    """What a device draws for its work; never more than its limit over the whole run."""
    seconds, base, most = work.seconds, device.idle_power, device.power
    if draw is None:
        extra = seconds * (device.power - device.idle_power) * _share(work)
    else:
        extra = _extra(work, device, draw, seconds)
        base, most = base + draw.clock_watts, most * draw.constants.limit_share
        _check_kept(draw, device, base + float(extra.sum()) / max(makespan_ps * PICO, PICO))
    room = max(most - base, 0.0) * makespan_ps * PICO
    return DeviceDraw(base, most, extra * min(1.0, room / max(extra.sum(), PICO)))


def _check_kept(draw: Draw | Draws, device: Device, watts: float) -> None:
    """Raises an error where a device draws more than its limit at its lowest clock: nothing can keep it."""
    least = draw.constants.least_clock_mhz
    if device.power and draw.clock_mhz <= least * _NEARLY and watts > device.power * _NEARLY:
        raise ConfigError(
            f"{device.name} cannot stay within {device.power:g} W: on this work it draws more at its lowest "
            f"clock, {least:g} MHz; give a higher limit"
        )


def _share(work: DeviceWork) -> float:
    """Rows may overlap: each has its share of the time in which the device is busy."""
    seconds = work.seconds
    return float(work.busy / seconds.sum()) if seconds.any() else 0.0


def joules_of(
    work: DeviceWork, makespan_ps: int, device: Device, draw: Draw | Draws | None, kinds: Kinds
) -> dict[str, float]:
    """One device's joules by class of work over the whole run."""
    works, takes = work.works, drawn(work, makespan_ps, device, draw)
    joules = takes.extra + work.seconds * _share(work) * takes.base
    names, codes = kinds
    sums = np.bincount(codes[works], joules[works], minlength=len(names))
    joules_by_kind = {names[k]: float(sums[k]) for k in np.unique(codes[works]).tolist()}
    idle = takes.base * (makespan_ps * PICO - work.busy)
    return {**dict(sorted(joules_by_kind.items())), IDLE: idle}


def _extra(work: DeviceWork, device: Device, draw: Draw | Draws, seconds: F64) -> F64:
    """The energy of each row beyond idle power and the power of the clocks."""
    activity = activity_of(work.trace, device, draw.constants, seconds)
    moved = work.trace.column("comm_size", 0).astype(np.float64)
    # What is sent is read from memory, and what arrives is written to it.
    most = np.minimum(2 * moved, device.memory_bandwidth * seconds)
    communicated = np.where(work.kind == COMM, most, 0.0)
    return draw.joules(activity) + communicated * draw.constants.memory_pj * PICO


def class_work(outcome: Outcome, c: int) -> DeviceWork:
    """What the device of a class's first rank did."""
    program, rows = outcome.program(c), outcome.rows(c)
    return DeviceWork(program.trace, program.kind, outcome.start[rows], outcome.end[rows])


def class_device(outcome: Outcome, machine: Machine, c: int) -> Device:
    """The device of a class's first rank."""
    return machine.device(int(outcome.device_of[int(outcome.classes.first[c])]))
