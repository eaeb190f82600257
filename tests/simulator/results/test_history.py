"""An allocator's recorded history goes with the work it was recorded beside."""

from __future__ import annotations

import pyarrow as pa
import pytest

import chakrakit as ck
from support.paths import DATA


def recorded() -> ck.Run:
    """Kernels of 100 and 300 ns; the allocator gave out 50 bytes more in the middle of the second."""
    t = ck.TraceBuilder()
    first = t.comp("short", stream=7, start_time_ns=0, duration_ns=100)
    second = t.comp("long", stream=7, start_time_ns=100, duration_ns=300, deps=[first])
    t.comp("end", stream=7, start_time_ns=400, duration_ns=100, deps=[second])
    run = ck.Run([t.build()], {0: ck.Binding(0)})
    table = pa.table({"rank": [0, 0], "time_ns": [50, 250], "bytes": [1000, 1050]})
    card = run.card.replace(settings={"memory": "allocator"})
    return run.with_counters({"memory": table}).with_card(card)


def test_moments_stay_between_the_rows_that_were_around_them():
    slower = ck.simulate(recorded(), "dgx-h100", stragglers={0: 2.0})
    assert slower.summary.ranks[0].peak_bytes == slower.summary.needs_bytes == 1050
    assert slower.run().counters["memory"].to_pylist() == [
        {"rank": 0, "time_ns": 100, "bytes": 1000},
        {"rank": 0, "time_ns": 500, "bytes": 1050},
    ]


@pytest.mark.slow
def test_a_recorded_peak_is_the_same_after_a_simulation():
    run = ck.link(DATA / "pytorch" / "memory_history").run
    done = ck.simulate(run, "dgx-h200")
    assert done.summary.needs_bytes == run.analyze().memory.peak_bytes == 194_402_304
    assert done.run().analyze().memory.peak_bytes == 194_402_304
