"""The account of a rank's memory: sums in the order of issue, times that only place them."""

import numpy as np

from chakrakit.trace.memory import KINDS, Allocations
from chakrakit.trace.memory.allocations import BEFORE

ACTIVATIONS, PARAMETERS = KINDS.index("activations"), KINDS.index("parameters")


def account(*changes, tensors=0):
    """(row, at_end, bytes, kind) of each change, all under one label."""
    row, at_end, size, kind = zip(*changes, strict=True)
    return Allocations(
        row=np.array(row, np.int64),
        at_end=np.array(at_end, np.bool_),
        bytes=np.array(size, np.int64),
        kind=np.array(kind, np.int8),
        label=np.zeros(len(row), np.int32),
        labels=("x",),
        source="test",
        tensors=tensors,
    )


STEP = account(
    (BEFORE, False, 100, PARAMETERS),
    (0, False, 40, ACTIVATIONS),
    (0, True, -30, ACTIVATIONS),
    (1, False, 20, ACTIVATIONS),
)
START, END = np.array([10, 20]), np.array([20, 30])


def test_the_peak_is_the_largest_sum():
    assert STEP.held.tolist() == [100, 140, 110, 130]
    assert (STEP.peak_bytes, STEP.before_bytes) == (140, 100)
    assert STEP.by_kind() == {"parameters": 100, "activations": 40}
    assert [(h.kind, h.bytes) for h in STEP.holders()] == [("parameters", 100), ("activations", 40)]


def test_changes_are_placed_on_the_clock_of_their_rows():
    assert STEP.times(START, END).tolist() == [10, 10, 20, 20]
    assert STEP.peak_time(START, END) == 10


def test_a_moment_shows_the_most_it_held():
    """At 20 rank 0 frees 30 and takes 20: 130 after, and never below 110."""
    at, held = STEP.timeline(START, END)
    assert (at.tolist(), held.tolist()) == ([10, 20], [140, 130])


def test_a_row_that_never_ran_changes_at_the_begin():
    never = np.array([-1, 20])
    assert STEP.times(never, np.array([-1, 30])).tolist() == [20, 20, 20, 20]


def test_nothing_held_has_no_peak():
    freed = account((0, True, -5, ACTIVATIONS))
    assert (freed.peak_bytes, freed.by_kind(), freed.holders()) == (0, {}, [])


def test_accounts_follow_each_other():
    both = Allocations.joined([STEP, account((0, False, 1, ACTIVATIONS), tensors=1)], "both")
    assert (both.peak_bytes, both.labels, both.tensors) == (140, ("x",), 1)
