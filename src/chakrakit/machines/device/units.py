"""Units inside a device: matrix and vector units, CPU cores, an NPU, a DPU, copy engines.

Each has rates of its own by element type, and all share the device's memory bandwidth. A node names its unit
(`unit`), or shares of several that work on it side by side (`matrix=0.75,vector=0.25`). Work that the same
kernel does on another unit meanwhile, such as turning packed weights into numbers for the product units, is
its `side_ops` on `side_unit`: the kernel takes as long as the slower of the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import msgspec
import numpy as np

from chakrakit.arrays import F64, I32, I64
from chakrakit.errors import ConfigError, TraceError, nearest
from chakrakit.machines.device.quantities import Quantity, parse, positive
from chakrakit.operators import dtype_name, figure_for
from chakrakit.trace.model import Trace

WHOLE = 1_000_000
"""The device's memory bandwidth in the parts in which the simulator shares it out."""
_SIDE_TYPE = "fp32"
"""The element type of side work, which vector units do in single precision."""


class UnitText(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A unit as a file describes it."""

    peak: dict[str, Quantity]
    """Peak rate by element type, FLOP/s, of the whole unit."""
    width: int = 1
    """How many nodes run on it at a time, each with an equal part of its rate and of its `bandwidth`: the
    cores of a CPU."""
    bandwidth: Quantity = 0
    """The most that it draws of the device's memory bandwidth; 0 for no limit of its own."""
    layout: str = ""
    """How it needs its matrices arranged; "" for any way. Between layouts they are repacked."""


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """A unit in base units, see `UnitText`."""

    name: str
    peak: dict[str, float]
    width: int = 1
    bandwidth: float = 0.0
    layout: str = ""

    @property
    def node_bandwidth(self) -> float:
        """The most that one node draws of the memory; 0 for no limit."""
        return self.bandwidth / self.width

    def rate(self, dtype: str) -> float | None:
        """The peak rate that one node gets; None where the unit cannot work in this type."""
        rate = figure_for(self.peak, dtype)
        return None if rate is None else rate / self.width


def read_units(texts: Mapping[str, UnitText], where: str) -> dict[str, Unit]:
    """The units of a description, with every number checked."""
    return {name: _unit(name, text, f"{where}.{name}") for name, text in texts.items()}


def _unit(name: str, text: UnitText, where: str) -> Unit:
    if not name or set(name) & set("=,"):
        raise ConfigError(f"{where}: give the unit a name without = and commas")
    if not text.peak:
        raise ConfigError(f"{where}.peak: give a rate for one element type at least")
    if not 1 <= text.width <= 1 << 16:
        raise ConfigError(f"{where}.width: {text.width} is not in 1 … 65,536")
    peaks = {dtype_name(d): positive(v, "rate", f"{where}.peak.{d}") for d, v in text.peak.items()}
    bandwidth = parse(text.bandwidth, "bandwidth", f"{where}.bandwidth")
    return Unit(name=name, peak=peaks, width=text.width, bandwidth=bandwidth, layout=text.layout)


@cache
def split_units(text: str) -> dict[str, float]:
    """`matrix` as {matrix: 1}, `matrix=0.75,vector=0.25` as shares by unit, which add up to 1."""
    if "=" not in text:
        return {text: 1.0}
    try:
        shares = {n.strip(): float(s) for n, _, s in (p.partition("=") for p in text.split(","))}
    except ValueError:
        raise TraceError(f"unit {text!r}: write NAME, or NAME=SHARE,NAME=SHARE") from None
    if not (all(0 <= s <= 1 for s in shares.values()) and abs(sum(shares.values()) - 1) < 1e-6):
        raise TraceError(f"unit {text!r}: shares are from 0 to 1 and add up to 1")
    return {name: share for name, share in shares.items() if share}


class UnitTimes:
    """How long the nodes of a trace that name units take on them, and how much of memory they draw."""

    def __init__(
        self,
        trace: Trace,
        units: Mapping[str, Unit],
        device: str,
        efficiency: float,
        bandwidth: float,
    ) -> None:
        self.trace, self.units, self.device = trace, units, device
        self.efficiency, self.bandwidth = efficiency, bandwidth
        self._codes, self._texts = trace.texts("unit")

    @property
    def rows(self) -> I64:
        """The rows that name a unit."""
        return np.flatnonzero(self._codes >= 0)

    def seconds(self, flops: F64, moved: F64, dtypes: tuple[list[str], I64]) -> F64:
        """Seconds by row; 0 for rows that name no unit."""
        names, codes = dtypes
        out = np.zeros(len(self.trace))
        side = self._side_seconds()
        for row in self.rows.tolist():
            shares = self._shares(row)
            parts = shares.items() if flops[row] else ()
            worked = [flops[row] * s / self._rate(row, n, names[codes[row]]) for n, s in parts]
            out[row] = max(*worked, moved[row] / self._bandwidth(row), side[row])
        return out

    def demand(self, moved: F64, seconds: F64) -> I32:
        """The part of the memory bandwidth that each row draws while nothing slows it; of WHOLE."""
        out = np.zeros(len(self.trace), np.int32)
        rows = self.rows[seconds[self.rows] > 0] if self.bandwidth else self.rows[:0]
        share = moved[rows] / (self.bandwidth * seconds[rows])
        out[rows] = np.rint(np.minimum(share, 1.0) * WHOLE)
        return out

    def _side_seconds(self) -> F64:
        ops = self.trace.column("side_ops", 0).astype(np.float64)
        out = np.zeros(len(self.trace))
        codes, texts = self.trace.texts("side_unit")
        for row in np.flatnonzero(ops).tolist():
            if codes[row] < 0:
                raise TraceError(f"{self._node(row)} has side_ops and names no side_unit")
            out[row] = ops[row] / self._rate(row, texts[codes[row]], _SIDE_TYPE)
        return out

    def _shares(self, row: int) -> dict[str, float]:
        return split_units(self._texts[self._codes[row]])

    def _rate(self, row: int, name: str, dtype: str) -> float:
        rate = self._unit(row, name).rate(dtype)
        if rate is None:
            raise ConfigError(
                f"{self._node(row)} works in {dtype}, for which unit {name!r} of {self.device} has no "
                "rate; add it under `peak`"
            )
        return rate * self.efficiency

    def _bandwidth(self, row: int) -> float:
        """What the units of a row can draw together, at most all there is."""
        each = [
            self._unit(row, name).node_bandwidth or self.bandwidth for name in self._shares(row)
        ]
        return min(sum(each), self.bandwidth) or np.inf

    def _unit(self, row: int, name: str) -> Unit:
        if name in self.units:
            return self.units[name]
        there_are = nearest(name, self.units) if self.units else "it describes no `units`"
        raise ConfigError(f"{self._node(row)} runs on unit {name!r} of {self.device}; {there_are}")

    def _node(self, row: int) -> str:
        return f"node {self.trace.ids[row]} ({self.trace[row].name!r})"
