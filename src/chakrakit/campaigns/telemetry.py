"""Telemetry of a job's nodes second by second, with labels: what monitoring would have seen of failures.

Healthy signals scatter around their usual values; an incident moves some of them, from some time before the
failure on. Values are relative: 1 is what a healthy node shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from chakrakit.arrays import F64, I64

SIGNALS = ("utilisation", "power", "clock", "temperature", "nic", "step_time")
SCATTER: Mapping[str, float] = {
    "utilisation": 0.02,
    "power": 0.03,
    "clock": 0.005,
    "temperature": 0.02,
    "nic": 0.05,
    "step_time": 0.02,
}
"""Standard deviations of a minute's mean on a healthy node: assumptions, of the order of what steps of one
size vary by (docs/accuracy.md)."""
SIGNS: Mapping[str, Mapping[str, float]] = {
    "thermal": {"temperature": 1.2, "clock": 0.85, "step_time": 1.1},
    "nic": {"nic": 0.6, "step_time": 1.15},
    "power": {"power": 0.7, "clock": 0.9, "utilisation": 0.95},
    "memory": {"utilisation": 0.8, "power": 0.85},
    "host": {"step_time": 1.2, "utilisation": 0.85},
}
"""What each kind of incident does to signals."""


@dataclass(frozen=True)
class Incident:
    """Something that goes wrong on a node and shows from `begin` to the failure at `end`, in samples."""

    node: int
    kind: str
    begin: int
    end: int


@dataclass(frozen=True, eq=False)
class Telemetry:
    """`values[signal, node, sample]`, and the number of the incident that each node and sample belongs to."""

    values: F64
    label: I64
    incidents: Sequence[Incident]
    seconds: float
    """Of a sample."""

    def table(self) -> pa.Table:
        """One row per node and sample, with a column for every signal and the kind of the incident."""
        _, nodes, samples = self.values.shape
        kinds = [i.kind for i in self.incidents]
        label = [kinds[n] if n >= 0 else None for n in self.label.reshape(-1).tolist()]
        signals = {name: self.values[i].reshape(-1) for i, name in enumerate(SIGNALS)}
        return pa.table(
            {
                "node": np.repeat(np.arange(nodes), samples),
                "second": np.tile(np.arange(samples) * self.seconds, nodes),
                **signals,
                "incident": pa.array(label, pa.string()),
            }
        )

    def series(self, first: float = 0.0) -> pa.Table:
        """A row per signal, node and sample, as a Run's counters have it; times begin at `first` seconds."""
        count, nodes, samples = self.values.shape
        times = np.rint((first + np.arange(samples) * self.seconds) * 1e9).astype(np.int64)
        names = pa.DictionaryArray.from_arrays(
            pa.array(np.repeat(np.arange(count, dtype=np.int32), nodes * samples)), list(SIGNALS)
        )
        return pa.table(
            {
                "rank": np.tile(np.repeat(np.arange(nodes), samples), count),
                "time_ns": np.tile(times, count * nodes),
                "signal": names.cast(pa.string()),
                "relative": self.values.reshape(-1),
            }
        )

    def labels(self, first: float = 0.0) -> pa.Table:
        """A row per incident: its node and kind, and from when to when it shows."""
        rows = [(i.node, i.kind, i.begin, i.end) for i in self.incidents]
        node, kind, begin, end = zip(*rows, strict=True) if rows else ((), (), (), ())
        times = [
            np.rint((first + np.array(t, np.float64) * self.seconds) * 1e9).astype(np.int64)
            for t in (begin, end)
        ]
        return pa.table(
            {
                "rank": pa.array(node, pa.int64()),
                "kind": pa.array(kind, pa.string()),
                "begin_ns": times[0],
                "end_ns": times[1],
            }
        )


def telemetry(
    nodes: int, samples: int, incidents: Sequence[Incident], seed: int = 0, seconds: float = 1.0
) -> Telemetry:
    """Signals of all nodes. A job waits for its slowest node, so step times are those of the worst."""
    rng = np.random.default_rng(seed)
    scatter = np.array([SCATTER[name] for name in SIGNALS])[:, None, None]
    values = 1 + scatter * rng.standard_normal((len(SIGNALS), nodes, samples))
    label = np.full((nodes, samples), -1)
    for number, incident in enumerate(incidents):
        span = slice(max(0, incident.begin), incident.end)
        label[incident.node, span] = number
        for name, factor in SIGNS[incident.kind].items():
            values[SIGNALS.index(name), incident.node, span] *= factor
    return Telemetry(values, label, tuple(incidents), seconds)
