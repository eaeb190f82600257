"""Model state in a trace's header: read, written, cut anew when groups change their size."""

import pytest

from chakrakit import TraceBuilder
from chakrakit.errors import FormatError
from chakrakit.trace.memory import StatePart, model_state, reshard_state, with_model_state
from chakrakit.trace.memory.model_state import from_model_state
from chakrakit.trace.model import Metadata

WHOLE = StatePart("parameters", 100)
SHARD = StatePart("optimizer", 52, "dp", 25, 4)


@pytest.fixture
def trace():
    t = TraceBuilder()
    t.comp("mm", duration_ns=1)
    return t.build().with_metadata(Metadata.of("1", name="w"))


def test_the_header_keeps_its_other_attributes(trace):
    changed = with_model_state(trace, [WHOLE, StatePart("other", 0)])
    assert model_state(changed) == [WHOLE]
    assert changed.metadata.attributes["name"] == "w"
    assert model_state(with_model_state(changed, [])) == []


def test_a_group_of_another_size_has_other_shards(trace):
    """25 elements of 4 bytes over 4 ranks: seven each."""
    changed = reshard_state(with_model_state(trace, [WHOLE, SHARD]), {"dp": 4, "tp": 2})
    assert [p.bytes for p in model_state(changed)] == [100, 28]


def test_where_no_shard_changes_the_trace_is_the_same(trace):
    known = with_model_state(trace, [WHOLE])
    assert reshard_state(known, {"dp": 4}) is known


def test_state_is_there_before_the_first_row(trace):
    found = from_model_state(with_model_state(trace, [WHOLE, SHARD]))
    assert (found.row.tolist(), found.before_bytes) == ([-1, -1], 152)
    assert found.by_kind() == {"parameters": 100, "optimizer": 52}
    assert from_model_state(trace) is None


@pytest.mark.parametrize("text", ["{", '[{"kind": "parameters"}]', '[{"kind": "x", "bytes": 1}]'])
def test_damage_is_refused(trace, text):
    damaged = trace.with_metadata(Metadata.of("", model_state=text))
    with pytest.raises(FormatError, match="model_state is damaged"):
        model_state(damaged)
