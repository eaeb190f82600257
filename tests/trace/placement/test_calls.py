"""Who called whom, and ends that follow what was called."""

import numpy as np

from chakrakit import TraceBuilder
from chakrakit.trace.placement import callers_in, nested_ends


def trace(*rows):
    """(start, end) of each row of one thread."""
    t = TraceBuilder()
    for i, (start, end) in enumerate(rows):
        t.comp(f"n{i}", is_cpu_op=True, tid=1, start_time_ns=start, duration_ns=end - start)
    return t.build()


def test_the_traces_own_times_say_who_called_whom():
    """A simulator gave other times since, in which nothing overlaps."""
    body = trace((0, 100), (10, 50))
    start, end = np.array([0, 10]), np.array([5, 20])
    assert callers_in(body, start, end, np.ones(2, np.bool_)).tolist() == [-1, 0]


def test_a_caller_ends_as_long_after_what_it_called_as_it_did():
    """The inner row ended 50 before its caller; it now ends at 400."""
    body = trace((0, 100), (10, 50))
    assert nested_ends(body, np.array([0, 10]), np.array([20, 400])).tolist() == [450, 400]


def test_but_not_after_the_next_row_of_its_thread_began():
    body = trace((0, 100), (10, 50), (120, 130))
    start = np.array([0, 10, 420])
    assert nested_ends(body, start, np.array([20, 400, 430])).tolist() == [420, 400, 430]


def test_ticks_may_be_finer_than_nanoseconds():
    body = trace((0, 100), (10, 50))
    found = nested_ends(body, np.array([0, 10_000]), np.array([20_000, 400_000]), per_ns=1000)
    assert found.tolist() == [450_000, 400_000]


def test_work_that_outlived_its_caller_does_not_hold_it_up():
    body = trace((0, 100), (10, 9_000))
    assert nested_ends(body, np.array([0, 10]), np.array([20, 400])).tolist() == [20, 400]


def test_a_trace_without_times_keeps_its_ends():
    t = TraceBuilder()
    t.comp("a", is_cpu_op=True)
    end = np.array([7])
    assert nested_ends(t.build(), np.array([0]), end) is end
