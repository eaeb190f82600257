"""Two runs side by side: what is called added or removed is so."""

from __future__ import annotations

import numpy as np

from chakrakit.insight.compare.comparison import compare
from chakrakit.trace.model.trace import Trace
from chakrakit.trace.sets.run import Run, Times, run_of
from chakrakit.trace.sets.traceset import TraceSet


def run_with(durations: np.ndarray) -> Run:
    names = [f"operator {i}" for i in range(len(durations))]
    trace = Trace.from_columns(
        {
            "name": names,
            "type": np.full(len(durations), 4),
            "is_cpu_op": np.zeros(len(durations), bool),
            "stream": np.zeros(len(durations), np.int64),
        }
    )
    end = np.cumsum(durations)
    return run_of(TraceSet([trace]), {0: Times(end - durations, end)}, {})


def test_what_both_runs_have_is_neither_added_nor_removed() -> None:
    """The order by time differs between the sides, so the longest of one are short in the other."""
    rising = np.arange(1, 501, dtype=np.int64) * 1000
    found = compare(run_with(rising), run_with(rising[::-1].copy()))
    assert len(found.operators) == 500
    assert {c.change for c in found.operators} <= {"slower", "faster", "same"}
