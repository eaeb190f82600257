"""Two runs side by side: what changed, what explains it, and rules that say when it is too much."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest

import chakrakit as ck
from chakrakit.commands import main
from chakrakit.errors import ConfigError
from chakrakit.insight import compare, doubts, failures, parse_rule
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import Run, Times, TraceSet, run_of
from support.served import served


def run_with(durations: np.ndarray) -> Run:
    names = [f"operator {i}" for i in range(len(durations))]
    trace = Trace.from_columns(
        {
            "name": names,
            "type": np.full(len(durations), 4),
            "is_cpu_op": np.zeros(len(durations), bool),
            "stream": np.zeros(len(durations), np.int64),
        }
    )
    end = np.cumsum(durations)
    return run_of(TraceSet([trace]), {0: Times(end - durations, end)}, {})


def test_what_both_runs_have_is_neither_added_nor_removed() -> None:
    """The order by time differs between the sides, so the longest of one are short in the other."""
    rising = np.arange(1, 501, dtype=np.int64) * 1000
    comparison = compare(run_with(rising), run_with(rising[::-1].copy()))
    assert len(comparison.operators) == 500
    assert {c.change for c in comparison.operators} <= {"slower", "faster", "same"}


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
    assert doubts(quiet, ["step>0.1%", "step>90%"])[0].endswith(
        "but the change is within the noise"
    )
    assert len(doubts(quiet, ["step>0.1%", "step>90%"])) == 1
    assert doubts(compare(a, slower(two_ranks, 2, 7_000)), ["step>3%"]) == []
    assert failures(compare(a, slower(two_ranks, 2, 7_000)), ["step>3%"])


def test_whether_runs_differ_is_said_as_far_as_it_is_known(two_ranks):
    """One step a side tells no noise; of two predicted runs, an interval that holds zero says no."""
    longer = slower(two_ranks, 2, 7_000)
    assert compare(two_ranks, two_ranks).step.significant is False
    assert compare(two_ranks, longer).step.significant is None
    assert compare([two_ranks, slower(two_ranks, 2, 10)], longer).step.significant is True

    def predicted(flops: int) -> ck.Run:
        t = ck.TraceBuilder()
        t.comp("layers.0.qkv", num_ops=flops, tensor_size=3 * 4096**2 * 2, op_type="matmul")
        return ck.simulate(ck.TraceSet([t.build()]), "dgx-h200", compute="roofline").run()

    for more, differs in ((1.001, False), (4.0, True)):
        result = compare(predicted(2 * 4096**3), predicted(int(more * 2 * 4096**3)))
        assert result.interval_ns is not None
        assert (result.interval_ns[0] > 0) == differs
        assert bool(failures(result, ["step>0%"])) == differs
        assert [d.endswith("could be zero") for d in doubts(result, ["step>0%"])] == (
            [] if differs else [True]
        )
        assert result.step.significant is differs


def test_what_hangs_or_is_of_another_kind_is_not_compared_in_silence(two_ranks):
    traces = ck.generate(model="gpt3-125m", tp=2, seq=128, global_batch=1).traces
    with pytest.raises(ck.DeadlockError) as hang:
        ck.simulate(traces, "dgx-h100", compute="roofline", faults=["device:1@1e5=0"])
    hung = compare(two_ranks, hang.value.simulation.run())
    assert hung.warning == "B does not end: what is compared is how far it came"
    with pytest.raises(ConfigError, match="does not end"):
        failures(hung, ["step>3%"])
    other = compare(two_ranks, served())
    assert other.warning.startswith("A is a program's run, B is a served stream")
    assert other.incomparable


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
    printed = json.loads(out[out.index(b"{\n") :])
    assert printed["step"]["ratio"] == pytest.approx(62 / 55)
    first = {"what": "compute: update", "delta_ns": 7_000, "change": "durations"}
    assert printed["explained"][0] == printed["causes"][0] == first


def test_a_rule_says_by_how_much_it_is_broken(two_ranks):
    result = compare(two_ranks, slower(two_ranks, 2, 5_500))
    assert failures(result, ["step>3%", "compute>1us", "step<-1%"]) == [
        "step changed by +10.00 %, more than 3 %",
        "compute changed by +5,500 ns, more than 1 us",
    ]
    faster = compare(slower(two_ranks, 2, 5_000), two_ranks)
    assert failures(faster, ["compute<-1us"]) == ["compute changed by -5,000 ns, less than -1 us"]


def test_sides_of_unlike_size_are_noted(two_ranks):
    notes = compare(two_ranks, two_ranks.select_ranks([1])).notes
    assert "A has 2 ranks and B 1; sums are per rank" in notes
    assert "no steps were found: the whole run counts as one" in notes


def test_the_gap_between_predicted_and_recorded_sums_exactly_and_says_what_closes_it(linked):
    """A recording against its own prediction by a profile: parts of the step, kernels by operator."""
    run = linked("two_streams")
    predicted = ck.simulate(run, "dgx-h200", compute="h200").run()
    result = compare(predicted, run)
    assert sum(part.delta_ns for part in result.gap) == result.step.delta_ns
    assert {"kernels", "host dispatch"} <= {part.part for part in result.gap}
    assert all(part.closes for part in result.gap)
    assert compare(run, run).gap == []


def test_a_change_that_rounds_to_nothing_has_no_sign(two_ranks):
    step = msgspec.structs.replace(
        ck.compare(two_ranks, two_ranks).step, a_ns=10**9, b_ns=10**9 - 1
    )
    result = msgspec.structs.replace(ck.compare(two_ranks, two_ranks), step=step)
    assert "(+0.00 %," in result.answers()[0].title


def test_a_cause_of_two_operators_names_both() -> None:
    """63 and 37 of 100 µs: neither is nearly all of it."""
    before = np.array([100_000, 100_000], np.int64)
    [cause] = compare(run_with(before), run_with(before + np.array([63_000, 37_000]))).causes
    assert "operator 0" in cause.what
    assert "operator 1" in cause.what


def test_work_of_the_same_flops_says_what_differs_and_one_step_tells_no_noise() -> None:
    """Twice as many bytes a value; and half the FLOPs on each of twice as many ranks."""

    def run(**fields: object) -> Run:
        made = {"model": "gpt3-125m", "seq": 128, "global_batch": 2, **fields}
        return ck.simulate(ck.generate(**made).traces, "dgx-h100", compute="roofline").run()

    plain = run(tp=1)
    found = compare(plain, run(tp=1, dtype="fp32"))
    assert found.causes[0].what.startswith("work: the same FLOPs, ")
    assert "× the bytes in memory" in found.causes[0].what
    assert "noise not known" in found.answers()[0].title
    assert any("0.50 × the FLOPs a rank" in c.what for c in compare(plain, run(tp=2)).causes)


def test_types_that_the_schema_does_not_have_keep_their_nodes_apart() -> None:
    run = run_with(np.array([1000, 2000], np.int64))
    odd = run.trace(0).with_columns({"type": np.array([2**31 - 1, -1], np.int32)})
    times = {0: run.times_of(0)}
    same = ck.compare(*(run_of(TraceSet([odd]), times, {}) for _ in "ab"))
    assert {c.change for c in same.operators} == {"same"}
