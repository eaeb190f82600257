"""How long an operation takes on a device: as measured, by the roofline, or by a fitted profile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import msgspec
import numpy as np

from chakrakit import core
from chakrakit.arrays import F64, I8, I64, Mask, Texts
from chakrakit.errors import ConfigError, TraceError
from chakrakit.machines.device.device import Device
from chakrakit.operators import figure_for
from chakrakit.trace.model import NodeType, Trace
from chakrakit.trace.placement import on_host, stored
from chakrakit.trace.sets import PS_PER_NS

# The simulator's clock: picoseconds in 64 bits, up to one horizon. Times are checked where they are made.


HORIZON_PS = core.SIM_HORIZON_PS
"""The longest a simulation may go on, and the longest of any time in it."""

PS_PER_S = 1e12
MOST_NS = HORIZON_PS // PS_PER_NS
MOST_SECONDS = HORIZON_PS // 10**12
HORIZON_DAYS = MOST_SECONDS // 86400


def picoseconds(seconds: float, what: str) -> int:
    """Seconds as ticks; `what` takes that long, for the error."""
    if not 0 <= seconds <= MOST_SECONDS:
        raise too_long(what, f"{seconds:g} s")
    return round(seconds * PS_PER_S)


def each_picoseconds(seconds: F64, what: Callable[[int], str]) -> I64:
    """The same for many; `what` names the i-th."""
    wrong = np.flatnonzero(~((seconds >= 0) & (seconds <= MOST_SECONDS)))
    if len(wrong):
        raise too_long(what(int(wrong[0])), f"{seconds[wrong[0]]:g} s")
    return np.rint(seconds * PS_PER_S).astype(np.int64)


def nanoseconds_to_ticks(nanos: I64, what: Callable[[int], str]) -> I64:
    """Nanoseconds, which may be below 0, as ticks."""
    wrong = np.flatnonzero((nanos > MOST_NS) | (nanos < -MOST_NS))
    if len(wrong):
        raise too_long(what(int(wrong[0])), f"{nanos[wrong[0]]:,} ns")
    return nanos * PS_PER_NS


def too_long(what: str, long: str) -> ConfigError:
    """What to raise about a time that the clock does not have."""
    return ConfigError(
        f"{what} is {long}; a simulation has {HORIZON_DAYS} days in all: check the unit"
    )


ROOFLINE_ERROR = 0.5
"""What the roofline misses by: it gives half of the measured steps of GPT-2 on an H200 (docs/accuracy.md)."""


class CostSource(IntEnum):
    """What says how long a row takes."""

    NONE = 0
    MEASURED = 1
    PROFILE = 2
    ROOFLINE = 3
    EXTRAPOLATED = 4
    """A profile too, but outside of what was measured for it."""


@dataclass(frozen=True, eq=False)
class Costs:
    """The duration of every row of a trace in picoseconds, the CostSource of each, and how sure it is."""

    ps: I64
    source: I8
    error: F64
    """By what share of the duration the truth may differ; 0 for what was measured."""

    @property
    def profiled(self) -> Mask:
        """Rows whose time a profile says."""
        return np.isin(self.source, (CostSource.PROFILE, CostSource.EXTRAPOLATED))


class WorkModel(Protocol):
    """Gives every row of a trace a duration; communication's is what was measured."""

    name: str

    def costs(self, trace: Trace, device: Device) -> Costs:
        """One entry per row."""
        ...


def measured_rows(trace: Trace) -> Mask:
    """Rows that somebody timed: they say when they started, how long they took, or their own time."""
    timed = trace.has("own_ns") | trace.has("duration_ns") | trace.has("start_time_ns")
    return np.asarray(timed | (trace.duration_ns > 0) | (trace.start_ns > 0))


def work_rows(trace: Trace) -> Mask:
    """Rows whose time a work model answers for: compute and memory operations, on host or device."""
    works = trace.is_type(NodeType.COMP_NODE, NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE)
    return works & ~stored(trace)


def as_measured(trace: Trace) -> Costs:
    """Recorded nanoseconds as costs; rows nobody timed have none."""
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
    """What the trace says; work that nobody timed is refused."""

    name = "measured"

    def costs(self, trace: Trace, device: Device) -> Costs:
        """Recorded nanoseconds."""
        found = as_measured(trace)
        known = (trace.column("num_ops", 0) > 0) | (trace.column("tensor_size", 0) > 0)
        without = work_rows(trace) & known & (found.source == CostSource.NONE)
        if without.any():
            row = int(np.flatnonzero(without)[0])
            raise TraceError(
                f"--compute measured: {int(without.sum()):,} of {int(work_rows(trace).sum()):,} "
                f"operations were never measured, such as node {trace.ids[row]} "
                f"({trace[row].name!r}); use --compute auto, which takes their time from the "
                "machine, or --compute roofline for all"
            )
        return found


class Roofline:
    """The larger of FLOPs over the achievable rate and bytes over the achievable bandwidth.

    Achievable is, in a training step, what the device's `achieved` says of this kind of work, else its
    two efficiencies: decoding, for one, comes much closer to the bandwidth than training does.
    Device rows with `num_ops` or `tensor_size` are computed, and take at least the kernel overhead; rows
    with neither, and host rows, keep what was measured.
    """

    name = "roofline"

    def costs(self, trace: Trace, device: Device) -> Costs:
        """Computed where the trace knows the work."""
        flops = trace.column("num_ops", 0).astype(np.float64)
        moved = trace.column("tensor_size", 0).astype(np.float64)
        _refuse_below_zero(trace, "num_ops", flops)
        host = on_host(trace)
        memory = trace.is_type(NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE)
        known = work_rows(trace) & (~host | memory) & ((flops > 0) | (moved > 0))
        if known.any() and not (device.peak and device.memory_bandwidth):
            raise ConfigError(
                f"device {device.name!r} has no peak rate or memory bandwidth, which a "
                "roofline needs; add `peak` and `memory_bandwidth`"
            )
        kinds, codes = dtypes_of(trace)
        if _is_training(trace):
            codes = np.where(told_as(trace, "attention"), len(kinds), codes)
            seconds = _achieved_seconds(flops, moved, [*kinds, "attention"], codes, device)
        else:
            seconds = _achieved_seconds(flops, moved, kinds, codes, _as_rated(device))
        return computed_costs(trace, known, seconds, CostSource.ROOFLINE)


def _refuse_below_zero(trace: Trace, name: str, values: F64) -> None:
    """Bytes have no sign in a trace; operations do, and would count as none."""
    wrong = np.flatnonzero(values < 0)
    if len(wrong):
        row = int(wrong[0])
        raise TraceError(
            f"node {trace.ids[row]} ({trace[row].name!r}) has {name} {values[row]:.0f}; give 0 or more"
        )


class Auto:
    """Measured where the node was measured; else by the device's own profile, else by the roofline."""

    name = "auto"

    def __init__(self, profile_of: Callable[[Device], WorkModel | None]) -> None:
        self._profile_of = profile_of

    def costs(self, trace: Trace, device: Device) -> Costs:
        """One source for each row, the best there is."""
        found = as_measured(trace)
        if not (work_rows(trace) & (found.source == CostSource.NONE)).any():
            return found
        profile = self._profile_of(device)
        for model in (profile, Roofline()):
            if model is not None:
                found = _filled(found, model.costs(trace, device))
        return found


def _filled(costs: Costs, others: Costs) -> Costs:
    """Rows without a source take the other's."""
    missing = costs.source == CostSource.NONE
    return Costs(
        np.where(missing, others.ps, costs.ps),
        np.where(missing, others.source, costs.source),
        np.where(missing, others.error, costs.error),
    )


def computed_costs(trace: Trace, known: Mask, seconds: F64, source: CostSource) -> Costs:
    """These seconds for known rows, the others as measured; times beyond the clock are refused."""
    rows = np.flatnonzero(known & ~(seconds <= MOST_SECONDS))
    if len(rows):
        row = int(rows[0])
        raise ConfigError(
            f"node {trace.ids[row]} ({trace[row].name!r}) would take {seconds[row] / 86400:,.0f} "
            "days; check num_ops and tensor_size, and the rates of the device"
        )
    rest = as_measured(trace)
    computed = np.rint(np.where(known, seconds, 0.0) * 1e12).astype(np.int64)
    return Costs(
        np.where(known, computed, rest.ps),
        np.where(known, np.int8(source), rest.source),
        np.where(known, ROOFLINE_ERROR, rest.error),
    )


def dtypes_of(trace: Trace) -> tuple[list[str], I64]:
    """The element types that rows work in, and the number of each row's; bf16 where the trace is silent."""
    codes, names = trace.texts("dtype")
    return [*names, "bf16"], np.where(codes < 0, len(names), codes).astype(np.int64)


def told_as(trace: Trace, *kinds: str) -> Mask:
    """Rows whose `op_type` is one of these."""
    codes, names = trace.texts("op_type")
    return np.isin(codes, [code for code, name in enumerate(names) if name in kinds])


def _is_training(trace: Trace) -> bool:
    """Whether something is computed backwards, or parameters change."""
    if "phase" not in trace.table.column_names:
        return False
    phases = trace.table.column("phase").unique().to_pylist()
    return not {"backward", "weight", "optimizer"}.isdisjoint(phases)


def roofline_seconds(flops: F64, moved: F64, dtypes: Texts, device: Device) -> F64:
    """The roofline's time of each operation, given its work and the element type it is done in."""
    names, codes = np.unique(dtypes.astype(str), return_inverse=True)
    return _achieved_seconds(flops, moved, names.tolist(), codes, _as_rated(device))


def _as_rated(device: Device) -> Device:
    """The device by its two efficiencies alone."""
    return msgspec.structs.replace(device, achieved={})


def _achieved_seconds(flops: F64, moved: F64, kinds: list[str], codes: I64, device: Device) -> F64:
    """The same, by what the device achieves in each kind of work: an element type, or `attention`."""
    rates = np.array([_rate(kind, device) or 1.0 for kind in kinds])
    share = device.achieved.get("memory", device.memory_efficiency)
    bandwidth = device.memory_bandwidth * share or 1.0
    seconds: F64 = np.maximum(flops / rates[codes], moved / bandwidth)
    return np.maximum(seconds, device.kernel_overhead)


def _rate(kind: str, device: Device) -> float:
    """Fused attention counts in 16 bits, whatever its element type is called."""
    dtype = "bf16" if kind == "attention" else kind
    for name in (kind, dtype):
        if (share := figure_for(device.achieved, name)) is not None:
            return device.peak_rate(dtype) * share
    return device.peak_rate(dtype) * device.compute_efficiency
