"""By how much the time of each class of work changed between two sets of traces."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from chakrakit.passes.nodes import classes_of, coded, with_run_times
from chakrakit.trace.sets import TraceSet


def by_class(before: TraceSet, after: TraceSet) -> list[dict[str, Any]]:
    """One row per class, largest first: nodes, and nanoseconds of all ranks before and after.

    Times are those of the nodes themselves, as if each ran alone; communication is left out, since
    only a network knows its times.
    """
    old, new = _totals(before), _totals(after)
    names = sorted({*old, *new} - {"communication", "none"})
    rows = [_row(name, old.get(name, (0, 0)), new.get(name, (0, 0))) for name in names]
    return sorted(rows, key=lambda row: -max(row["before_ns"], row["after_ns"]))


def _row(name: str, old: tuple[int, int], new: tuple[int, int]) -> dict[str, Any]:
    ratio = round(new[1] / old[1], 4) if old[1] else None
    return {"class": name, "nodes": new[0], "before_ns": old[1], "after_ns": new[1], "ratio": ratio}


def _totals(traces: TraceSet) -> dict[str, tuple[int, int]]:
    traces = with_run_times(traces)
    ranks = Counter(binding.body for binding in traces.bindings.values())
    found: dict[str, tuple[int, int]] = {}
    for body, count in ranks.items():
        trace = traces.body_at(body)
        names, codes = coded(classes_of(trace))
        for number, name in enumerate(names):
            rows = np.flatnonzero(codes == number)
            nodes, nanos = found.get(name, (0, 0))
            found[name] = nodes + len(rows) * count, nanos + int(trace.own_ns[rows].sum()) * count
    return found
