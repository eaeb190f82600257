"""All ranks of a workload joined into one graph, so that the scheduler can run them to the end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chakrakit import Edges, TraceSet, schedule
from chakrakit.trace.model import EdgeForm


@dataclass
class Joined:
    """Ranks one after another, then one row per collective; `first` is each rank's first row."""

    traces: TraceSet
    n: int
    edges: Edges
    first: dict[int, int]

    def column(self, name: str, default):
        parts = [t.column(name, default) for _, t in self.traces]
        own = np.concatenate(parts)
        return np.concatenate([own, np.full(self.n - len(own), default, own.dtype)])

    def run(self, durations, resource=None):
        return schedule(self.n, self.edges, durations, resource=resource)

    def rank_column(self):
        sizes = [len(t) for _, t in self.traces]
        ranks = np.repeat(list(self.traces.ranks), sizes)
        return np.concatenate([ranks, np.full(self.n - len(ranks), -1)])


def join(traces: TraceSet) -> Joined:
    """Messages become edges; a collective ends for nobody before everybody has started it."""
    first, total, parts = {}, 0, []
    for rank, trace in traces:
        first[rank] = total
        own = trace.edges
        parts.append(Edges.of(own.src + total, own.dst + total))
        total += len(trace)
    found = traces.collectives
    messages = found.messages
    at = (
        np.array([first[r] for r in messages["rank"].to_pylist()], np.int64)
        + messages["row"].to_numpy()
    )
    keys = list(zip(*(messages[c].to_pylist() for c in ("src", "dst", "tag", "nth")), strict=True))
    size = messages["comm_size"].to_numpy()
    sends = {k: i for i, k in enumerate(keys) if messages["is_send"][i].as_py()}
    receives = {k: i for i, k in enumerate(keys) if not messages["is_send"][i].as_py()}
    assert sends.keys() == receives.keys()
    pairs = [(sends[k], receives[k]) for k in sends]
    assert all(size[a] == size[b] for a, b in pairs)
    parts.append(
        Edges.of(at[[a for a, _ in pairs]], at[[b for _, b in pairs]]) if pairs else Edges.empty()
    )
    calls = found.calls
    where = (
        np.array([first[r] for r in calls["rank"].to_pylist()], np.int64) + calls["row"].to_numpy()
    )
    if len(where):
        instance = calls["instance"].to_numpy() + total
        parts.append(Edges.of(where, instance, form=EdgeForm.START_START))
        parts.append(Edges.of(instance, where, form=EdgeForm.FINISH_FINISH))
        total += int(found.instances.num_rows)
    return Joined(traces, total, Edges.concat(parts), first)
