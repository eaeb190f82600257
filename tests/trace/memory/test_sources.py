"""Where the account of memory comes from: of several ways to say it the first counts."""

from __future__ import annotations

import json

import numpy as np
import pytest

from chakrakit import Metadata, Trace, TraceBuilder, TraceSet
from chakrakit.trace.memory import allocations_of

TENSOR = json.dumps([[1, 40, 0, 256, 4, "cuda:0"]])


def test_counts_of_nodes_go_before_tensors_that_they_name() -> None:
    columns = {"name": ["a"], "type": [4], "duration_micros": [1], "outputs_values": [TENSOR]}
    assert allocations_of(Trace.from_columns(columns)).peak_bytes == 1024
    both = Trace.from_columns({**columns, "mem_alloc": [100]})
    assert allocations_of(both).peak_bytes == 100


def test_what_the_model_holds_throughout_is_added_to_what_nodes_take() -> None:
    state = json.dumps([{"kind": "parameters", "bytes": 1000}])
    trace = Trace.from_columns(
        {"name": ["a"], "type": [4], "mem_alloc": [100]}, None, Metadata.of("1", model_state=state)
    )
    found = allocations_of(trace)
    assert found.peak_bytes == 1100
    assert found.by_kind() == {"parameters": 1000, "activations": 100}
    alone = Trace.from_columns({"name": ["a"]}, None, Metadata.of("1", model_state=state))
    assert allocations_of(alone).peak_bytes == 1000


def test_the_order_of_issue_counts_not_the_clock():
    """Two streams: what runs at the same time is still taken and released one after the other."""
    t = TraceBuilder()
    a = t.comp("a", duration_ns=10, stream=0, mem_alloc=100)
    t.comp("b", duration_ns=10, stream=0, deps=[a], mem_free=100)
    t.comp("c", duration_ns=10, stream=1, mem_alloc=60)
    found = allocations_of(t.build(), np.array([0, 10, 0]), np.array([10, 20, 10]))
    assert found.peak_bytes == 100
    time, held = found.timeline(np.array([0, 10, 0]), np.array([10, 20, 10]))
    assert time.tolist() == [0, 20]
    assert held.max() == found.peak_bytes


def test_a_trace_that_says_nothing_has_no_account():
    t = TraceBuilder()
    t.comp("a", duration_ns=10)
    assert allocations_of(t.build()) is None


def test_negative_bytes_are_refused():
    trace = Trace.from_columns({"name": ["a"], "type": [4], "mem_alloc": [-5]})
    with pytest.raises(Exception, match="bytes, 0 or more"):
        allocations_of(trace)


def test_damaged_state_is_refused():
    from chakrakit import Metadata

    trace = Trace.from_columns(
        {"name": ["a"], "type": [4]},
        None,
        Metadata.of("1", model_state='[{"kind":"gold","bytes":1}]'),
    )
    with pytest.raises(Exception, match="model_state is damaged"):
        allocations_of(TraceSet([trace]).trace(0))
