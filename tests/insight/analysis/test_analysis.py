"""`chakra analyze`: the whole, and its JSON."""

from __future__ import annotations

import json

import pytest

import chakrakit as ck
from chakrakit.commands import main
from chakrakit.insight import analyze
from chakrakit.insight.breakdown import breakdown
from chakrakit.insight.critical_path.critical_path import critical_path


@pytest.mark.slow
def test_all_at_once_says_what_each_function_says(linked):
    run = linked("gpt_fsdp_tp_4")
    whole = analyze(run)
    assert whole.ranks == breakdown(run).ranks
    assert whole.critical_path == critical_path(run)
    assert all(t.title for t in whole.tables())


@pytest.mark.slow
def test_json_has_what_other_programs_rely_on(linked, tmp_path, capfdbinary):
    ck.write(linked("gpt_pp_2"), tmp_path / "run")
    main(["analyze", str(tmp_path / "run"), "--json"], standalone_mode=False)
    printed = json.loads(capfdbinary.readouterr().out)
    for rank in printed["ranks"]:
        b = rank["breakdown"]
        assert (
            b["compute_ns"] + b["exposed_comm_ns"] + b["exposed_copy_ns"] + b["idle_ns"]
            == printed["span_ns"]
        )
        assert {"comm_ns", "copy_ns"} <= set(b)
    path = printed["critical_path"]
    assert path["length_ns"] == sum(s["end_ns"] - s["start_ns"] for s in path["segments"])
    assert sum(path["attribution"].values()) == path["length_ns"]
    assert {"collectives", "stragglers"} <= set(printed)
    assert printed["memory"]["peak_bytes"] > 0


def test_people_get_tables(two_ranks, tmp_path, capfd):
    ck.write(two_ranks, tmp_path / "run")
    main(
        ["analyze", str(tmp_path / "run"), "--full", "--faster", "compute=2"], standalone_mode=False
    )
    text = capfd.readouterr().out
    assert "critical path" in text
    assert "who waits for whom" in text


def test_traces_without_times_are_refused_with_the_cure(tmp_path, capfd):
    t = ck.TraceBuilder()
    t.comp("a")
    ck.write(ck.TraceSet([t.build()]), tmp_path / "set")
    with pytest.raises(SystemExit) as stop:
        main(["analyze", str(tmp_path / "set")])
    assert stop.value.code == 2
    assert "simulate" in capfd.readouterr().err


def test_a_recording_without_times_is_told():
    builder = ck.TraceBuilder()
    builder.comp("a", duration_ns=0)
    notes = analyze(ck.Run([builder.build()])).notes
    assert any("no node takes any time" in note for note in notes)
