"""Tensors that nodes list by name and bytes: alive from the first writer to the last user."""

import pytest

from chakrakit import TraceBuilder
from chakrakit.errors import TraceError
from chakrakit.trace.memory.sources import from_named_tensors


def account(*nodes):
    t = TraceBuilder()
    for i, fields in enumerate(nodes):
        t.comp(f"n{i}", start_time_ns=10 * i, duration_ns=10, **fields)
    trace = t.build()
    return from_named_tensors(trace, trace.start_ns, trace.end_ns)


def test_a_tensor_dies_with_its_last_user():
    """`a` (8) lives through all three nodes, `b` (4) through the last two; 12 at once."""
    found = account({"outputs": ["a", "8"]}, {"inputs": ["a", "8"], "outputs": ["b", "4"]},
                    {"inputs": ["b", "4.0", "a", "8"]})  # fmt: skip
    assert found.bytes.tolist() == [8, 4, -8, -4]
    assert (found.peak_bytes, found.tensors) == (12, 2)


def test_what_is_only_read_was_there_before_and_stays():
    found = account({"inputs": ["w", "100"]})
    assert (found.before_bytes, found.bytes.tolist()) == (100, [100])


def test_what_ends_makes_place_for_what_begins():
    found = account({"outputs": ["a", "8"]}, {"outputs": ["b", "8"]})
    assert found.peak_bytes == 8


def test_a_size_that_is_no_number_is_refused_with_its_node():
    with pytest.raises(
        TraceError, match="inputs should list name, bytes, …; 'many' is not a number"
    ):
        account({"inputs": ["a", "many"]})


def test_a_trace_that_lists_none_has_no_account():
    assert account({}) is None
