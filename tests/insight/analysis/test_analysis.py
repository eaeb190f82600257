"""`chakra analyze` and `chakra compare`: the whole, its JSON, and rules for CI."""

from __future__ import annotations

import json

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.cli import main
from chakrakit.errors import ConfigError
from chakrakit.insight.analysis.analysis import analyze
from chakrakit.insight.compare.comparison import compare, failures, parse_rule
from chakrakit.insight.critical_path.critical_path import critical_path
from chakrakit.insight.time.breakdown import breakdown
from chakrakit.trace.sets.run import Times, run_of


def test_all_at_once_says_what_each_function_says(linked):
    run = linked("gpt_fsdp_tp_4")
    whole = analyze(run)
    assert whole.ranks == breakdown(run).ranks
    assert whole.critical_path == critical_path(run)
    assert all(t.title for t in whole.tables())


def test_json_has_what_other_programs_rely_on(linked, tmp_path, capfdbinary):
    ck.write(linked("gpt_pp_2"), tmp_path / "run")
    main(["analyze", str(tmp_path / "run"), "--json"], standalone_mode=False)
    told = json.loads(capfdbinary.readouterr().out)
    for rank in told["ranks"]:
        b = rank["breakdown"]
        assert (
            b["compute_ns"] + b["exposed_comm_ns"] + b["exposed_copy_ns"] + b["idle_ns"]
            == told["span_ns"]
        )
        assert {"comm_ns", "copy_ns"} <= set(b)
    path = told["critical_path"]
    assert path["length_ns"] == sum(s["end_ns"] - s["start_ns"] for s in path["segments"])
    assert sum(path["attribution"].values()) == path["length_ns"]
    assert {"collectives", "stragglers"} <= set(told)
    assert told["memory"]["peak_bytes"] > 0


def test_people_get_tables(two_ranks, tmp_path, capfd):
    ck.write(two_ranks, tmp_path / "run")
    main(["analyze", str(tmp_path / "run"), "--faster", "compute=2"], standalone_mode=False)
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


def slower(run: ck.Run, row: int, by: int) -> ck.Run:
    """The same with one node of every rank longer, and all after it later."""
    times = {}
    for rank in run.ranks:
        start, end = run.start(rank).copy(), run.end(rank).copy()
        after = start >= end[row]
        start[after] += by
        end[after] += by
        end[row] += by
        times[rank] = Times(start, end)
    return run_of(run, times, tick_ps=1000)


def test_the_difference_is_explained_and_sums_up(two_ranks):
    result = compare(two_ranks, slower(two_ranks, 2, 7_000))
    assert (result.step.a_ns, result.step.b_ns) == (55_000, 62_000)
    assert result.explained[0].what == "compute: update"
    assert result.explained[0].delta_ns == 7_000
    assert sum(e.delta_ns for e in result.explained) == 7_000
    assert sum(e.delta_ns for e in result.breakdown) == 7_000
    changed = {c.name: c.change for c in result.operators}
    assert changed == {"forward": "same", "update": "slower", "sum": "same"}


def test_added_and_removed():
    def one(name: str) -> ck.Run:
        t = ck.TraceBuilder()
        t.comp(name, stream=7, duration_ns=10)
        return run_of(
            ck.TraceSet([t.build()]), {0: Times(np.array([0]), np.array([10]))}, tick_ps=1000
        )

    changed = {c.name: c.change for c in compare(one("old"), one("new")).operators}
    assert changed == {"old": "removed", "new": "added"}


def test_runs_of_the_same_kind_give_the_noise(two_ranks):
    """Three runs of A spread over 2 µs: half a µs more is noise, 7 µs are not."""
    a = [two_ranks, slower(two_ranks, 2, 1_000), slower(two_ranks, 2, 2_000)]
    quiet = compare(a, slower(two_ranks, 2, 1_500))
    assert quiet.step.noise_ns == 1_000
    assert not quiet.step.significant
    assert failures(quiet, ["step>0.1%"]) == []
    assert failures(compare(a, slower(two_ranks, 2, 7_000)), ["step>3%"])


@pytest.mark.parametrize(
    ("rule", "fails"),
    [
        ("step>3%", True),
        ("step>20%", False),
        ("compute>1us", True),
        ("compute>1ms", False),
        ("idle>0ns", False),
    ],
)
def test_rules(two_ranks, rule, fails):
    result = compare(two_ranks, slower(two_ranks, 2, 7_000))
    assert bool(failures(result, [rule])) == fails


@pytest.mark.parametrize("text", ["step", "step>", ">3%", "step>3 apples", "step=3%"])
def test_rules_that_are_none(text):
    with pytest.raises(ConfigError, match="step>3%"):
        parse_rule(text)


def test_unknown_metrics_are_named(two_ranks):
    with pytest.raises(ConfigError, match="exposed_comm"):
        failures(compare(two_ranks, two_ranks), ["speed>3%"])


def test_compare_exits_1_when_a_rule_fails(two_ranks, tmp_path, capfdbinary):
    for name, run in (("a", two_ranks), ("b", slower(two_ranks, 2, 7_000))):
        ck.write(run, tmp_path / name)
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    main(["compare", a, a, "--fail-if", "step>3%"], standalone_mode=False)
    with pytest.raises(SystemExit) as stop:
        main(["compare", a, b, "--json", "--fail-if", "step>3%"])
    assert stop.value.code == 1
    out = capfdbinary.readouterr().out
    told = json.loads(out[out.index(b"{\n") :])
    assert told["step"]["ratio"] == pytest.approx(62 / 55)
    assert told["explained"][0] == {"what": "compute: update", "delta_ns": 7_000}


def test_a_recording_without_times_is_told():
    builder = ck.TraceBuilder()
    builder.comp("a", duration_ns=0)
    notes = analyze(ck.Run([builder.build()])).notes
    assert any("no node takes any time" in note for note in notes)
