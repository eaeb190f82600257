"""What the device's tracer says it did for itself."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.sources.pytorch.linking.overhead import Overhead
from chakrakit.sources.pytorch.linking.rank import tracer_time


@pytest.mark.parametrize(
    ("record", "removed_us"), [("Activity Buffer Request", 500), ("Command Buffer Full", 0)]
)
def test_the_tracers_own_work_is_taken_out_where_it_happened(slow_step, record, removed_us):
    """Waiting for a full queue is not the tracer's: programs wait for that without it too."""
    slow_step._event("overhead", record, 0, 130, 500)
    parts = slow_step.parts()
    linked = parts.linked(Overhead())
    moved = parts.line.start - linked.times.start
    second = np.flatnonzero(parts.line.start - parts.line.start.min() == 640_000)[0]
    assert moved[second] == removed_us * 1_000
    assert linked.undilated_ms == pytest.approx(removed_us / 1_000)


@pytest.mark.parametrize(("start", "dur", "taken_us"), [(130, 500, 500), (90, 500, 0), (700, 9, 0)])
def test_only_a_record_that_fits_into_the_gap_before_a_call_counts(slow_step, start, dur, taken_us):
    """The gap before the second launch is from 100 to 640 µs; after 645 no call follows."""
    slow_step._event("overhead", "Buffer Flush", 0, start, dur)
    parts = slow_step.parts()
    taken = tracer_time(parts.kineto, parts.host)
    assert taken.sum() == taken_us * 1_000


def test_a_gap_loses_no_more_than_it_lasted(slow_step):
    for _ in range(2):
        slow_step._event("overhead", "Buffer Flush", 0, 110, 500)
    parts = slow_step.parts()
    assert tracer_time(parts.kineto, parts.host).max() == 540_000
