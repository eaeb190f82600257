"""Memory that nodes count themselves: taken at their start, given back at their end."""

import pytest

from chakrakit import TraceBuilder
from chakrakit.errors import TraceError
from chakrakit.trace.memory import HELD_KIND
from chakrakit.trace.memory.sources import from_counts
from chakrakit.trace.model import Metadata


def trace(*nodes, header=None):
    t = TraceBuilder()
    for i, fields in enumerate(nodes):
        t.comp(f"n{i}", duration_ns=10, **fields)
    built = t.build()
    return built.with_metadata(header) if header else built


def account(found):
    return from_counts(found, found.start_ns, found.end_ns)


def test_a_node_takes_first_and_releases_last():
    found = account(trace({"mem_alloc": 8}, {"mem_alloc": 4, "mem_free": 10}))
    assert found.bytes.tolist() == [8, 4, -10]
    assert found.at_end.tolist() == [False, False, True]
    assert found.by_kind() == {"activations": 12}


def test_the_header_says_what_the_bytes_are_for():
    header = Metadata.of("", **{HELD_KIND: "kv_cache"})
    assert account(trace({"mem_alloc": 8}, header=header)).by_kind() == {"kv_cache": 8}
    header = Metadata.of("", **{HELD_KIND: "snacks"})
    assert account(trace({"mem_alloc": 8}, header=header)).by_kind() == {"other": 8}


def test_a_trace_without_counts_has_no_account():
    assert account(trace({})) is None


def test_negative_bytes_are_refused_with_the_node():
    with pytest.raises(TraceError, match="mem_alloc and mem_free are bytes, 0 or more"):
        account(trace({"mem_alloc": -1}))


def test_what_is_released_and_was_never_taken_was_there_before():
    """A window of a program has such nodes; memory below nothing is in no result."""
    found = account(trace({"mem_alloc": 10}, {"mem_free": 100}, {"mem_alloc": 5}))
    assert found.before_bytes == 90
    assert found.held.tolist() == [90, 100, 0, 5]
    assert found.peak_bytes == 100
    assert [h.operator for h in found.holders()] == ["(before the window)", "(held by nodes)"]


def test_bytes_beyond_every_memory_are_refused():
    with pytest.raises(TraceError, match="more bytes than any memory has"):
        account(trace({"mem_alloc": 2**62}, {"mem_alloc": 2**62}))
