"""Two streams joined by events, recorded on a GPU: eight products each, then their sum."""

from __future__ import annotations

import pytest

from chakrakit.replayer import ReplayOptions
from chakrakit.replayer.session import prepare
from support.recorded import linked


@pytest.fixture(scope="module")
def steps():
    return prepare(linked("two_streams"), ReplayOptions(device="cuda")).plans[0].steps


def test_operators_run_on_the_streams_they_ran_on(steps):
    beside = [i for i, s in enumerate(steps) if s.stream == 1]
    assert [steps[i].op for i in beside] == ["aten::mm", "aten::_softmax"] * 8
    assert beside == list(range(2, 18))


def test_a_stream_waits_for_what_another_made_and_for_nothing_else(steps):
    waits = {i: s.after for i, s in enumerate(steps) if s.after}
    assert waits == {2: [1], 34: [17]}  # the fork, and the join before the sum


def test_memory_of_another_stream_is_borrowed(steps):
    made = {slot: i for i, s in enumerate(steps) for slot in s.outs if slot is not None}
    lent = {i: [made[s] for s in step.borrowed] for i, step in enumerate(steps) if step.borrowed}
    assert lent == {2: [1], 34: [17]}


def test_saying_that_a_stream_uses_a_tensor_is_no_work(steps):
    assert [s.op for s in steps if s.op == "aten::record_stream"] == []
    assert len(steps) == 37
