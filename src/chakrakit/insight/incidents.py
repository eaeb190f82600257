"""What monitoring shows of incidents: which signal of a node gives each of them away, and how clearly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chakrakit.arrays import Mask
from chakrakit.insight.rank import Table
from chakrakit.results import Result

_NS_PER_HOUR = 3.6e12


class ShownIncident(Result, msgspec.Struct, frozen=True, kw_only=True):
    """An incident of a node, as its label says, and the signal that shows it best."""

    node: int
    kind: str
    begin_ns: int
    """When its signs begin, which is before a failure."""
    end_ns: int
    signal: str
    """Which of the node's signals is furthest from that of nodes without an incident."""
    relative: float
    """Its mean in that time, over a healthy node's."""
    scatter: float
    """How many standard deviations of a healthy node's samples that is away from their mean."""


class _Signal:
    """One signal of all nodes: its samples, and those that belong to no incident."""

    def __init__(self, samples: pa.Table) -> None:
        self.node, self.time = (samples[name].to_numpy() for name in ("rank", "time_ns"))
        self.value = samples["relative"].to_numpy()
        self.healthy = np.ones(len(self.value), np.bool_)

    def of(self, label: Mapping[str, Any]) -> Mask:
        """The samples of an incident."""
        inside = (self.time >= label["begin_ns"]) & (self.time < label["end_ns"])
        return np.asarray(inside & (self.node == label["rank"]))

    def away(self, label: Mapping[str, Any]) -> tuple[float, float]:
        """How many scatters an incident's mean is away from that of all healthy samples, and the mean."""
        usual, mean = self.value[self.healthy], float(self.value[self.of(label)].mean())
        return abs(mean - float(usual.mean())) / max(float(usual.std()), 1e-12), mean


def incidents_of(counters: Mapping[str, pa.Table]) -> list[ShownIncident]:
    """The incidents that a run's telemetry has labels of, in the order of time."""
    if "telemetry" not in counters or "incidents" not in counters:
        return []
    samples = counters["telemetry"]
    signals = {
        name: _Signal(samples.filter(pc.equal(samples["signal"], name)))
        for name in pc.unique(samples["signal"]).to_pylist()
    }
    labels = [
        label
        for label in counters["incidents"].to_pylist()
        if signals and all(signal.of(label).any() for signal in signals.values())
    ]
    for signal in signals.values():
        for label in labels:
            signal.healthy &= ~signal.of(label)
    shown = [_shown(label, signals) for label in labels]
    return sorted(shown, key=lambda one: (one.begin_ns, one.node))


def _shown(label: Mapping[str, Any], signals: Mapping[str, _Signal]) -> ShownIncident:
    away = {name: signal.away(label) for name, signal in signals.items()}
    best = max(away, key=lambda name: away[name][0])
    return ShownIncident(
        node=label["rank"],
        kind=label["kind"],
        begin_ns=label["begin_ns"],
        end_ns=label["end_ns"],
        signal=best,
        relative=away[best][1],
        scatter=away[best][0],
    )


def incident_table(incidents: Sequence[ShownIncident]) -> Table:
    """A row for each incident."""
    rows = [
        (
            one.node,
            one.kind,
            round(one.begin_ns / _NS_PER_HOUR, 2),
            round(one.end_ns / _NS_PER_HOUR, 2),
            one.signal,
            round(one.relative, 2),
            round(one.scatter, 1),
        )
        for one in incidents
    ]
    head = ("node", "incident", "from h", "to h", "best shown by", "× healthy", "scatters away")
    return Table.of("what monitoring shows", head, rows)
