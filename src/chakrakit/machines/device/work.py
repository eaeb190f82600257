"""How long operations take on a device: work models for measured times and the roofline, and the clock.

A work model gives every row of a trace a duration. Durations are picoseconds in 64 bits, up to one
horizon; they are checked where they are made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import msgspec
import numpy as np

from chakrakit.arrays import F64, I8, I32, I64, Mask, Texts
from chakrakit.errors import ConfigError, TraceError
from chakrakit.machines.device.device import Device
from chakrakit.machines.device.host_link import host_copy_rows
from chakrakit.machines.device.units import UnitTimes
from chakrakit.operators import figure_for
from chakrakit.trace.model import NodeType, Trace
from chakrakit.trace.placement import on_host, stored
from chakrakit.trace.sets import PS_PER_NS
from chakrakit.trace.timing import HORIZON_DAYS, HORIZON_NS, HORIZON_PS

# --- the simulator's clock ----------------------------------------------------------------------


PS_PER_S = 1e12
"""Picoseconds in a second."""
MOST_NS = HORIZON_NS
"""The horizon in nanoseconds."""
MOST_SECONDS = HORIZON_PS // 10**12
"""The horizon in seconds."""


def picoseconds(seconds: float, subject: str) -> int:
    """Seconds as picoseconds; `subject` says in an error what takes that long."""
    if not 0 <= seconds <= MOST_SECONDS:
        raise too_long(subject, f"{seconds:g} s")
    return round(seconds * PS_PER_S)


def each_picoseconds(seconds: F64, subject: Callable[[int], str]) -> I64:
    """Many seconds as picoseconds; `subject(i)` says in an error what the i-th of them is."""
    wrong = np.flatnonzero(~((seconds >= 0) & (seconds <= MOST_SECONDS)))
    if len(wrong):
        raise too_long(subject(int(wrong[0])), f"{seconds[wrong[0]]:g} s")
    return np.rint(seconds * PS_PER_S).astype(np.int64)


def nanoseconds_to_ticks(nanos: I64, subject: Callable[[int], str]) -> I64:
    """Nanoseconds, which may be negative, as picoseconds."""
    wrong = np.flatnonzero((nanos > MOST_NS) | (nanos < -MOST_NS))
    if len(wrong):
        raise too_long(subject(int(wrong[0])), f"{nanos[wrong[0]]:,} ns")
    return nanos * PS_PER_NS


def too_long(subject: str, duration: str) -> ConfigError:
    """The error for a time beyond the simulator's clock."""
    return ConfigError(
        f"{subject} is {duration}; a simulation has {HORIZON_DAYS} days in all: check the unit"
    )


ROOFLINE_ERROR = 0.5
"""Relative error of the roofline: it predicts half of the measured step of GPT-2 on an H200
(docs/accuracy.md)."""


class CostSource(IntEnum):
    """Where the duration of a row comes from."""

    NONE = 0
    MEASURED = 1
    PROFILE = 2
    ROOFLINE = 3
    EXTRAPOLATED = 4
    """Also a profile, but outside the sizes measured for it."""
    SCALED = 5
    """Recorded on another device, and scaled by the limits of the two."""


@dataclass(frozen=True, eq=False)
class Costs:
    """For every row of a trace the duration in picoseconds, its CostSource and its relative error."""

    ps: I64
    source: I8
    error: F64
    """The expected error as a share of the duration; 0 for measured rows."""

    @property
    def profiled(self) -> Mask:
        """Rows whose duration comes from a profile."""
        return np.isin(self.source, (CostSource.PROFILE, CostSource.EXTRAPOLATED))


class WorkModel(Protocol):
    """Gives every row of a trace a duration; communication rows keep the measured one."""

    name: str

    def costs(self, trace: Trace, device: Device) -> Costs:
        """The costs of all rows of a trace on a device."""
        ...


def measured_rows(trace: Trace) -> Mask:
    """Rows that were timed: they have a start, a duration or a time of their own."""
    timed = trace.has("own_ns") | trace.has("duration_ns") | trace.has("start_time_ns")
    return np.asarray(timed | (trace.duration_ns > 0) | (trace.start_ns > 0))


def work_rows(trace: Trace) -> Mask:
    """Rows whose time a work model determines: compute and memory operations, on host or device."""
    works = trace.is_type(NodeType.COMP_NODE, NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE)
    return works & ~stored(trace)


def as_measured(trace: Trace) -> Costs:
    """The recorded times as costs; rows that were not timed have the source NONE."""
    nanos = trace.own_ns
    wrong = np.flatnonzero((nanos < 0) | (nanos > MOST_NS))
    if len(wrong):
        row = int(wrong[0])
        raise ConfigError(
            f"node {trace.ids[row]} ({trace[row].name!r}) has a duration of {nanos[row]} ns; it must "
            f"be 0 or more, and at most {HORIZON_DAYS} days"
        )
    source = np.where(measured_rows(trace), CostSource.MEASURED, CostSource.NONE)
    return Costs(nanos * PS_PER_NS, source.astype(np.int8), np.zeros(len(trace)))


class Measured:
    """The work model of recorded times; it refuses traces with work that was not timed."""

    name = "measured"

    def costs(self, trace: Trace, device: Device) -> Costs:
        """The recorded times; an error where an operation has none."""
        costs = as_measured(trace)
        has_work = (trace.column("num_ops", 0) > 0) | (trace.column("tensor_size", 0) > 0)
        without = work_rows(trace) & has_work & (costs.source == CostSource.NONE)
        if without.any():
            row = int(np.flatnonzero(without)[0])
            raise TraceError(
                f"--compute measured: {int(without.sum()):,} of {int(work_rows(trace).sum()):,} "
                f"operations were never measured, such as node {trace.ids[row]} "
                f"({trace[row].name!r}); use --compute auto, which takes their time from the "
                "machine, or --compute roofline for all"
            )
        return costs


class Roofline:
    """The work model of the roofline: the longer of the times for FLOPs and for bytes at achievable rates.

    In a training step the achievable rates come from the device's `achieved`; elsewhere, and where that
    has no entry, from its two efficiencies: decoding, for one, comes much closer to the bandwidth than
    training does. Device rows with `num_ops` or `tensor_size` are computed and take at least the kernel
    overhead; all other rows, and host rows, keep their measured time.
    """

    name = "roofline"

    def costs(self, trace: Trace, device: Device) -> Costs:
        """Computed times for rows with FLOPs or bytes, measured times for the others."""
        flops = trace.column("num_ops", 0).astype(np.float64)
        moved = trace.column("tensor_size", 0).astype(np.float64)
        _refuse_below_zero(trace, "num_ops", flops)
        host = on_host(trace)
        memory = trace.is_type(NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE)
        computable = work_rows(trace) & (~host | memory) & ((flops > 0) | (moved > 0))
        if "unit" in trace.column_names:
            computable |= trace.has("unit") & work_rows(trace) & ((flops > 0) | (moved > 0))
        if computable.any() and not (device.peak and device.memory_bandwidth):
            raise ConfigError(
                f"device {device.name!r} has no peak rate or memory bandwidth, which a "
                "roofline needs; add `peak` and `memory_bandwidth`"
            )
        kinds, codes = dtypes_of(trace)
        if _is_training(trace):
            codes = np.where(typed_as(trace, "attention"), len(kinds), codes)
            seconds = _achieved_seconds(flops, moved, [*kinds, "attention"], codes, device)
        else:
            seconds = _achieved_seconds(flops, moved, kinds, codes, _as_rated(device))
        if "unit" in trace.column_names:
            on_units = _unit_times(trace, device).seconds(flops, moved, dtypes_of(trace))
            least = np.maximum(on_units, device.kernel_overhead)
            seconds = np.where(trace.has("unit"), least, seconds)
        copies, over_link = host_copy_rows(trace, device)
        seconds = np.where(copies, over_link, seconds)
        return computed_costs(trace, computable, seconds, CostSource.ROOFLINE)


def _unit_times(trace: Trace, device: Device) -> UnitTimes:
    bandwidth = device.memory_bandwidth * device.memory_efficiency
    return UnitTimes(trace, device.units, device.name, device.compute_efficiency, bandwidth)


def unit_demand(trace: Trace, device: Device, ps: I64, work: str) -> I32:
    """The part of the memory bandwidth, in millionths, that rows on units draw while nothing slows them.

    It is of the bandwidth that the work model with this name lets one row reach alone.
    """
    moved = trace.column("tensor_size", 0).astype(np.float64)
    reached = device if work == Roofline.name else with_shares(device)
    return _unit_times(trace, reached).demand(moved, ps / PS_PER_S)


def _refuse_below_zero(trace: Trace, name: str, values: F64) -> None:
    """Raises an error for a negative value; FLOPs are signed in a trace, and would silently count as 0."""
    wrong = np.flatnonzero(values < 0)
    if len(wrong):
        row = int(wrong[0])
        raise TraceError(
            f"node {trace.ids[row]} ({trace[row].name!r}) has {name} {values[row]:.0f}; give 0 or more"
        )


LEARNED_SHARE = 0.78
"""What products of 50 µs and more reach of the rate and of the bandwidth on a data sheet: the median of A100,
H100, H200 and B200 (0.78, 0.77, 0.79, 0.68 of the rate; 0.80, 0.85, 0.69, 0.76 of the bandwidth), in the
tables of ai-dynamo/aiconfigurator 095f58a."""
LEARNED_ERROR = 0.12
"""The median error of those products when the shares are learned from the other three devices: 6 and 7 % for
H200 and H100, 15 and 12 % for A100 and B200."""


class DataSheet:
    """The roofline at the shares of its rates that a file states, or else at those learned from others."""

    name = "data sheet"

    def costs(self, trace: Trace, device: Device) -> Costs:
        """The roofline's times."""
        return Roofline().costs(trace, with_shares(device))


def with_shares(device: Device) -> Device:
    """The device with the shares of its rates that it states, or else with those learned from others."""
    if device.states_shares:
        return device
    return msgspec.structs.replace(
        device, compute_efficiency=LEARNED_SHARE, memory_efficiency=LEARNED_SHARE
    )


class Auto:
    """The work model of the highest rung: recorded times, else the device's profile, else its data sheet."""

    name = "auto"

    def __init__(self, profile_of: Callable[[Device], WorkModel | None]) -> None:
        self._profile_of = profile_of

    def costs(self, trace: Trace, device: Device) -> Costs:
        """The time of each row from the best source available."""
        costs = as_measured(trace)
        if not (work_rows(trace) & (costs.source == CostSource.NONE)).any():
            return costs
        profile = self._profile_of(device)
        for model in (profile, DataSheet()):
            if model is not None:
                costs = _filled(costs, model.costs(trace, device))
        return costs


def _filled(costs: Costs, fallback: Costs) -> Costs:
    """The costs, with those of `fallback` for rows without a source."""
    missing = costs.source == CostSource.NONE
    return Costs(
        np.where(missing, fallback.ps, costs.ps),
        np.where(missing, fallback.source, costs.source),
        np.where(missing, fallback.error, costs.error),
    )


def computed_costs(trace: Trace, computable: Mask, seconds: F64, source: CostSource) -> Costs:
    """Costs with these seconds for computable rows and measured times for the others.

    Times beyond the simulator's clock are an error.
    """
    rows = np.flatnonzero(computable & ~(seconds <= MOST_SECONDS))
    if len(rows):
        row = int(rows[0])
        raise ConfigError(
            f"node {trace.ids[row]} ({trace[row].name!r}) would take {seconds[row] / 86400:,.0f} "
            "days; check num_ops and tensor_size, and the rates of the device"
        )
    rest = as_measured(trace)
    computed = np.rint(np.where(computable, seconds, 0.0) * 1e12).astype(np.int64)
    return Costs(
        np.where(computable, computed, rest.ps),
        np.where(computable, np.int8(source), rest.source),
        np.where(computable, ROOFLINE_ERROR, rest.error),
    )


def dtypes_of(trace: Trace) -> tuple[list[str], I64]:
    """The element types of a trace, and the index of each row's type; bf16 where the trace has none."""
    codes, names = trace.texts("dtype")
    return [*names, "bf16"], np.where(codes < 0, len(names), codes).astype(np.int64)


def typed_as(trace: Trace, *kinds: str) -> Mask:
    """Rows whose `op_type` is one of these."""
    codes, names = trace.texts("op_type")
    return np.isin(codes, [code for code, name in enumerate(names) if name in kinds])


def _is_training(trace: Trace) -> bool:
    """Whether the trace has a backward pass or an optimizer."""
    if "phase" not in trace.table.column_names:
        return False
    phases = trace.table.column("phase").unique().to_pylist()
    return not {"backward", "weight", "optimizer"}.isdisjoint(phases)


def roofline_seconds(flops: F64, moved: F64, dtypes: Texts, device: Device) -> F64:
    """The roofline's seconds for operations of these FLOPs, bytes and element types."""
    names, codes = np.unique(dtypes.astype(str), return_inverse=True)
    return _achieved_seconds(flops, moved, names.tolist(), codes, _as_rated(device))


def _as_rated(device: Device) -> Device:
    """The device without `achieved`, so that its two efficiencies apply."""
    return msgspec.structs.replace(device, achieved={})


def _achieved_seconds(flops: F64, moved: F64, kinds: list[str], codes: I64, device: Device) -> F64:
    """The roofline's seconds; operation i is of kind `kinds[codes[i]]`, an element type or `attention`."""
    rates = np.array([_rate(kind, device) or 1.0 for kind in kinds])
    share = device.achieved.get("memory", device.memory_efficiency)
    bandwidth = device.memory_bandwidth * share or 1.0
    seconds: F64 = np.maximum(flops / rates[codes], moved / bandwidth)
    return np.maximum(seconds, device.kernel_overhead)


def _rate(kind: str, device: Device) -> float:
    """The achievable FLOP/s of a kind of work; fused attention runs in 16 bits, whatever its type."""
    dtype = "bf16" if kind == "attention" else kind
    for name in (kind, dtype):
        if (share := figure_for(device.achieved, name)) is not None:
            return device.peak_rate(dtype) * share
    return device.peak_rate(dtype) * device.compute_efficiency
