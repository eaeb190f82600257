"""Ends that follow what was called, and what ran on without its caller."""

import numpy as np
import pytest

from chakrakit import TraceBuilder
from chakrakit.trace.placement import nested_ends, outlives_parent


def trace(*rows):
    """(start, end) of each row of one thread."""
    t = TraceBuilder()
    for i, (start, end) in enumerate(rows):
        t.comp(f"n{i}", is_cpu_op=True, tid=1, start_time_ns=start, duration_ns=end - start)
    return t.build()


def test_asynchronous_work_outlives_what_began_it():
    """Ending 10 µs later may still be a matter of clocks."""
    for end, asynchronous in ((10_100, False), (10_101, True)):
        body = trace((0, 100), (10, end))
        assert body.parent.tolist() == [-1, 0]
        assert outlives_parent(body).tolist() == [False, asynchronous]


def test_a_caller_ends_as_long_after_what_it_called_as_it_did():
    """The inner row ended 50 before its caller; it now ends at 400."""
    body = trace((0, 100), (10, 50))
    assert nested_ends(body, np.array([0, 10]), np.array([20, 400])).tolist() == [450, 400]


def test_but_not_after_the_next_row_of_its_thread_began():
    body = trace((0, 100), (10, 50), (120, 130))
    start = np.array([0, 10, 420])
    assert nested_ends(body, start, np.array([20, 400, 430])).tolist() == [420, 400, 430]


def test_the_last_of_several_calls_counts_and_then_the_callers_caller():
    """The outer row ended 20 after its inner one, and that 10 after the last of its three."""
    body = trace((0, 100), (5, 80), (10, 20), (30, 70), (40, 60))
    start, end = np.array([0, 5, 10, 30, 40]), np.array([1, 6, 500, 300, 200])
    assert body.parent.tolist() == [-1, 0, 1, 1, 3]
    assert nested_ends(body, start, end).tolist() == [520, 500, 500, 300, 200]


def test_ticks_may_be_finer_than_nanoseconds():
    body = trace((0, 100), (10, 50))
    found = nested_ends(body, np.array([0, 10_000]), np.array([20_000, 400_000]), per_ns=1000)
    assert found.tolist() == [450_000, 400_000]


def test_work_that_outlived_its_caller_does_not_hold_it_up():
    body = trace((0, 100), (10, 90_000))
    assert nested_ends(body, np.array([0, 10]), np.array([20, 400])).tolist() == [20, 400]


def test_a_trace_without_times_keeps_its_ends():
    t = TraceBuilder()
    t.comp("a", is_cpu_op=True)
    end = np.array([7])
    assert nested_ends(t.build(), np.array([0]), end) is end


def _ends_by_hand(body, start, end, follower):
    """Each caller after everything inside it, by recursion over the tree."""
    calls = {row: [] for row in range(len(body))}
    for row, outer in enumerate(body.parent.tolist()):
        if outer >= 0 and not outlives_parent(body)[row]:
            calls[outer].append(row)

    def ended(row):
        inside = {inner: ended(inner) for inner in calls[row]}
        if not inside:
            return int(end[row])
        last = max(inside, key=lambda inner: (int(body.end_ns[inner]), inner))
        until = inside[last] + max(int(body.end_ns[row] - body.end_ns[last]), 0)
        if follower[row] is not None and start[follower[row]] >= inside[last]:
            until = min(until, int(start[follower[row]]))
        return max(int(end[row]), until, *inside.values())

    return [ended(row) for row in range(len(body))]


@pytest.mark.slow
def test_ends_of_random_calls_equal_those_by_hand():
    rng = np.random.default_rng(5)
    for _ in range(200):
        begin = np.sort(rng.integers(0, 60, 12))
        recorded = begin + rng.integers(1, 40, 12)
        body = trace(*zip(begin.tolist(), recorded.tolist(), strict=True))
        start = body.start_ns + rng.integers(0, 30, 12)
        end = start + rng.integers(0, 50, 12)
        order = sorted(range(12), key=lambda row: (begin[row], -recorded[row]))
        follower = {
            row: next((o for o in order[order.index(row) + 1 :] if begin[o] >= recorded[row]), None)
            for row in order
        }
        assert nested_ends(body, start, end).tolist() == _ends_by_hand(body, start, end, follower)
