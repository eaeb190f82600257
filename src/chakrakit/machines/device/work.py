"""How long an operation takes on a device: as measured, by the roofline, or by a fitted profile."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from chakrakit.arrays import F64, I64, Texts
from chakrakit.errors import ConfigError
from chakrakit.machines.device.device import Device
from chakrakit.trace.model import NodeType, Trace

PS_PER_NS = 1000
MOST_NS = 2**62 // PS_PER_NS


class WorkModel(Protocol):
    """Gives every row of a trace a duration in picoseconds; communication's is what was measured."""

    name: str

    def durations(self, trace: Trace, device: Device) -> I64:
        """One entry a row."""
        ...


def measured_ns(trace: Trace) -> I64:
    """What a scheduler gives a row: its own time where the trace knows it, else its duration."""
    own = trace.column("own_ns", -1).astype(np.int64)
    return np.where(own >= 0, own, trace.duration_ns)


class Measured:
    """What the trace says."""

    name = "measured"

    def durations(self, trace: Trace, device: Device) -> I64:
        """Recorded nanoseconds."""
        nanos = measured_ns(trace)
        if len(nanos) and (nanos.min() < 0 or nanos.max() > MOST_NS):
            row = int(np.flatnonzero((nanos < 0) | (nanos > MOST_NS))[0])
            raise ConfigError(f"node {trace.ids[row]} has a duration of {nanos[row]} ns")
        return nanos * PS_PER_NS


class Roofline:
    """The larger of FLOPs over the achievable rate and bytes over the achievable bandwidth.

    Device rows with `num_ops` or `tensor_size` are computed, and take at least the kernel overhead; rows
    with neither, and host rows, keep what was measured.
    """

    name = "roofline"

    def durations(self, trace: Trace, device: Device) -> I64:
        """Computed where the trace knows the work."""
        flops = trace.column("num_ops", 0).astype(np.float64)
        moved = trace.column("tensor_size", 0).astype(np.float64)
        kernels = trace.is_type(NodeType.COMP_NODE) & ~trace.column("is_cpu_op", False).astype(
            np.bool_
        )
        memory = trace.is_type(NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE)
        known = (kernels | memory) & ((flops > 0) | (moved > 0))
        if known.any() and not (device.peak and device.memory_bandwidth):
            raise ConfigError(
                f"device {device.name!r} has no peak rate or memory bandwidth, which a "
                "roofline needs; add `peak` and `memory_bandwidth`"
            )
        computed = np.rint(roofline_seconds(flops, moved, _dtypes(trace), device) * 1e12)
        return np.where(known, computed.astype(np.int64), measured_ns(trace) * PS_PER_NS)


def _dtypes(trace: Trace) -> Texts:
    if "dtype" not in trace.table.column_names:
        return np.full(len(trace), "bf16", object)
    return np.array(trace.table.column("dtype").fill_null("bf16").to_pylist(), object)


def roofline_seconds(flops: F64, moved: F64, dtypes: Texts, device: Device) -> F64:
    """The roofline's time of each operation, given its work and the element type it is done in."""
    names, codes = np.unique(dtypes.astype(str), return_inverse=True)
    rates = np.array(
        [device.peak_rate(n) * device.compute_efficiency or 1.0 for n in names.tolist()]
    )
    bandwidth = device.memory_bandwidth * device.memory_efficiency or 1.0
    seconds: F64 = np.maximum(flops / rates[codes], moved / bandwidth)
    return np.maximum(seconds, device.kernel_overhead)
