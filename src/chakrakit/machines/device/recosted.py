"""Recorded times on another device than the one that took them.

What an operation took is multiplied by what it takes on the new device over what it takes on the recorded
one, both by the ladder: that keeps what a recording says of its kernels beyond any profile. Kernels of no
known operation are scaled by their class: products by the rates of the two devices, everything else by
the bandwidths of their memories; copies to and from the host by those of their links, and where these are not
known they keep their times. Operators that a CPU
computed get the times of kernels. What a host does besides stays as it was recorded.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from chakrakit.arrays import F64, I64, Mask
from chakrakit.machines.device.device import Device
from chakrakit.machines.device.launchers import operators_of
from chakrakit.machines.device.profile import CARRIED, SAME_DEVICE, Profiled, packaged_profile
from chakrakit.machines.device.work import (
    ROOFLINE_ERROR,
    Costs,
    CostSource,
    DataSheet,
    WorkModel,
    as_measured,
    picoseconds,
)
from chakrakit.trace.model import NodeType, Trace
from chakrakit.trace.placement import on_host
from chakrakit.trace.sets import CPU

_PRODUCT = re.compile("gemm|gemv|cutlass|nvjet|wgmma|xmma|conv|flash|fmha|attention", re.IGNORECASE)
_HOST_COPY = re.compile(r"Memcpy (HtoD|DtoH)")


@dataclass(frozen=True)
class RecordedOn:
    """What a recording's times were taken on: its name, and the device of a preset where one has it."""

    name: str
    device: Device | None = None

    def is_like(self, device: Device) -> bool:
        """Whether times of the two devices can stand for each other."""
        mine = self.device
        return self.name == device.name or (
            mine is not None
            and _alike(mine.peak_rate("bf16"), device.peak_rate("bf16"))
            and _alike(mine.memory_bandwidth, device.memory_bandwidth)
        )


def _alike(a: float, b: float) -> bool:
    return abs(a - b) <= SAME_DEVICE * max(a, b)


@dataclass(eq=False)
class Recosted:
    """The work model of a recording: its own times on its own device, carried ones on every other."""

    work: WorkModel
    """Times of what was not recorded."""
    recorded_on: RecordedOn
    scaled: Counter[str] = field(default_factory=Counter)
    """Nanoseconds by kernel that no operation is known of, on the new device."""

    def __post_init__(self) -> None:
        self.name = self.work.name

    def costs(self, trace: Trace, device: Device) -> Costs:
        """The costs of all rows on a device."""
        costs = self.work.costs(trace, device)
        timed = costs.source == CostSource.MEASURED
        if self.recorded_on.is_like(device) or not timed.any():
            return costs
        if self.recorded_on.name == CPU:
            return _as_kernels(costs, trace, device)
        works = trace.is_type(NodeType.COMP_NODE) & ~on_host(trace) & timed
        here = _by_ladder(trace, device)
        source = self.recorded_on.device
        if source is None:
            known = works & (here.source > CostSource.MEASURED)
            return _replaced(costs, known, here.ps, here.source, here.error)
        there = _by_ladder(trace, source)
        known = works & (here.source > CostSource.MEASURED) & (there.ps > 0)
        known &= there.source > CostSource.MEASURED
        carried = costs.ps * (here.ps / np.maximum(1, there.ps))
        error = np.full(len(trace), CARRIED)
        costs = _replaced(costs, known, carried, here.source, error)
        return self._scaled(costs, trace, works & ~known, source, device)

    def _scaled(self, costs: Costs, trace: Trace, rows: Mask, source: Device, to: Device) -> Costs:
        """Kernels of no known operation, by the limits of the two devices."""
        codes, names = trace.texts("name")
        rates = source.peak_rate("bf16") / (to.peak_rate("bf16") or 1.0)
        widths = source.memory_bandwidth / (to.memory_bandwidth or 1.0)
        factor = np.array(
            [rates if _PRODUCT.search(n) else 1.0 if _HOST_COPY.match(n) else widths for n in names]
        )[codes]
        longer = costs.ps * factor
        for row in np.flatnonzero(rows).tolist():
            self.scaled[names[codes[row]]] += int(longer[row]) // 1000
        kind = np.full(len(trace), CostSource.SCALED, np.int8)
        return _replaced(costs, rows, longer, kind, np.full(len(trace), ROOFLINE_ERROR))


def _by_ladder(trace: Trace, device: Device) -> Costs:
    work = packaged_profile(device.profile) if device.profile else DataSheet()
    return work.costs(trace, device)


def _as_kernels(costs: Costs, trace: Trace, device: Device) -> Costs:
    """Operators that a CPU computed, in the times of kernels; what calls them keeps its own."""
    if not device.profile:
        return costs
    profile: Profiled = packaged_profile(device.profile)
    ps, source, error = costs.ps.copy(), costs.source.copy(), costs.error.copy()
    recorded = as_measured(trace).source == CostSource.MEASURED
    for work in operators_of(trace):
        prediction = profile.predict(work.operation)
        row = work.rows[0]
        if prediction is None or not recorded[row]:
            continue
        carried = profile.carried(prediction, work.operation, device)
        rows = list(work.rows)
        ps[rows] = 0  # what it calls is a part of its kernel
        ps[row] = picoseconds(carried.us * 1e-6, f"node {trace.ids[row]}, by its profile,")
        error[rows] = carried.error
        source[rows] = CostSource.EXTRAPOLATED if carried.extrapolated else CostSource.PROFILE
    return Costs(ps, source, error)


def _replaced(costs: Costs, rows: Mask, ps: F64 | I64, source: I64 | object, error: F64) -> Costs:
    return Costs(
        np.where(rows, np.rint(ps), costs.ps).astype(np.int64),
        np.where(rows, source, costs.source).astype(np.int8),  # type: ignore[arg-type]
        np.where(rows, error, costs.error),
    )
