"""Which host row runs inside which, from times on a thread."""

from __future__ import annotations

import numpy as np

from chakrakit import TraceBuilder
from chakrakit.trace.timing.nesting import SLACK_NS, callers, nested


def test_the_caller_is_the_innermost_row_around_on_the_same_thread():
    """
    thread 1   |outer 0–10 µs                |after 12–13|
                 |inner 1–9|
                   |innermost 2–3|
    thread 2     |other 1–9|
    """
    rows = [
        ("outer", 1, 0, 10),
        ("inner", 1, 1, 9),
        ("innermost", 1, 2, 3),
        ("other", 2, 1, 9),
        ("after", 1, 12, 13),
        ("a kernel", None, 2, 3),
    ]
    t = TraceBuilder()
    for name, thread, _, _ in rows:
        t.comp(name, **({} if thread is None else {"tid": thread}))
    start, end = (np.array([1000 * row[i] for row in rows], np.int64) for i in (2, 3))
    found = callers(t.build(), start, end, np.ones(len(rows), np.bool_))
    assert found.tolist() == [-1, 0, 1, -1, -1, -1]


def test_what_began_inside_and_ran_on_by_itself_was_still_called_from_there():
    t = TraceBuilder()
    t.comp("outer", tid=1)
    t.comp("inner", tid=1)
    start, end = np.array([0, 50]), np.array([100, 90_000])
    assert callers(t.build(), start, end, np.ones(2, np.bool_)).tolist() == [-1, 0]


def test_a_row_that_outlives_its_caller_holds_nothing_that_runs_meanwhile():
    """`b` begins inside `a`; `c` runs inside both. Only where `b` ends soon after `a` has it called `c`."""
    thread, start = np.zeros(3, np.int64), np.array([0, 5, 6])
    for outlives, caller_of_c in ((SLACK_NS, 1), (SLACK_NS + 1, 0)):
        end = np.array([100, 100 + outlives, 7])
        assert nested(thread, start, end).tolist() == [-1, 0, caller_of_c]


def test_threads_do_not_nest_in_each_other():
    start, end = np.array([0, 1]), np.array([10, 2])
    assert nested(np.array([3, 4]), start, end).tolist() == [-1, -1]
    assert nested(np.zeros(0, np.int64), start[:0], end[:0]).tolist() == []
