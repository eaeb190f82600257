"""The report of `anonymize`: what happened to each column, and every text that is left."""

from __future__ import annotations

from chakrakit import Trace, TraceSet
from chakrakit.passes.anonymize import Anonymize
from support.recorded import linked


def test_the_report_lists_every_column_and_every_word_left():
    traces = linked("cnn_ddp_2")
    made = Anonymize()
    found = made.explain(traces, traces | made)
    treated = {c["column"]: (c["treatment"], c["values left"]) for c in found["columns"]}
    assert treated["op_schema"] == ("dropped", 0)
    assert treated["name"][0] == "renamed"
    assert treated["duration_ns"][0] == "kept"
    assert {"backward", "forward", "float"} <= set(found["words"])
    assert not any("aten" in w for w in found["words"])


def test_a_small_set_is_told_value_by_value():
    """Of two nodes one says its phase, a word that stays, and one a word of its own, which goes."""
    trace = Trace.from_columns(
        {"name": ["mine", "yours"], "type": [4, 4], "phase": ["forward", None], "own": ["x", None]}
    )
    before = TraceSet([trace])
    made = Anonymize()
    found = made.explain(before, before | made)
    told = {c["column"]: c for c in found["columns"]}
    assert told["phase"]["treatment"] == "words"
    assert (told["phase"]["values before"], told["phase"]["values left"]) == (1, 1)
    assert told["own"]["treatment"] == "dropped"
    assert (told["own"]["values before"], told["own"]["values left"]) == (1, 0)
    assert found["words"] == ["forward"]
    assert len(found["left"]) == 2
