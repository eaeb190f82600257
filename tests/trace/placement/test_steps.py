"""Steps that a trace marks: spans, periods and the usual one."""

import numpy as np
import pytest

from chakrakit import TraceBuilder
from chakrakit.trace.placement import StepSpan, marked_steps, slowest, usual_period


def spans(*rows):
    """(start, end, step, orphan, host) of each row."""
    t = TraceBuilder()
    for i, (_, _, step, orphan, host) in enumerate(rows):
        t.comp(f"n{i}", is_cpu_op=host, orphan=orphan, **({"step": step} if step >= 0 else {}))
    start, end = (np.array(c) for c in zip(*((r[0], r[1]) for r in rows), strict=True))
    return marked_steps(t.build(), start, end)


def test_a_period_lasts_from_the_end_of_the_step_before():
    found = spans((10, 30, 0, False, False), (35, 50, 1, False, False), (45, 60, 1, False, False))
    assert found == [StepSpan(0, 10, 30, 20), StepSpan(1, 35, 60, 30)]


def test_the_first_begins_with_what_was_launched_before_the_recording():
    found = spans((0, 12, -1, True, False), (15, 30, 0, False, False))
    assert found[0].period == 18


def test_or_with_the_step_on_the_host():
    found = spans((5, 40, 0, False, True), (15, 30, 0, False, False))
    assert found[0] == StepSpan(0, 15, 30, 25)


def test_steps_that_no_node_marks_are_none():
    assert spans((10, 30, -1, False, False), (35, 50, -1, False, False)) == []


def test_rows_that_did_not_run_make_no_step():
    assert spans((-1, -1, 0, False, False)) == []


@pytest.mark.parametrize(
    ("periods", "usual"), [([], 0), ([9], 9), ([9, 5], 5), ([90, 5, 7], 6), ([90, 5, 7, 6], 6)]
)
def test_the_usual_step_leaves_out_the_first_of_several(periods, usual):
    assert usual_period(periods) == usual


def test_of_each_step_the_slowest_rank_counts():
    assert slowest([{0: 90, 1: 5, 2: 7}, {0: 80, 1: 9, 2: 3}]) == 8


def test_without_a_device_a_step_ends_with_what_the_host_computes():
    found = spans((0, 90, 0, False, True), (95, 99, 0, False, True))
    assert found == [StepSpan(0, 0, 99, 99)]
