"""Slack and gains: by hand across ranks, against the oracle on random graphs, against hardware."""

from __future__ import annotations

import json

import numpy as np
import pytest

from chakrakit import Run, TraceBuilder
from chakrakit.errors import ConfigError
from chakrakit.insight.communication import match_calls
from chakrakit.insight.critical_path.model import model_of
from chakrakit.insight.critical_path.whatif import slack, what_if
from chakrakit.insight.rank import rank_view
from support.paths import DATA


def test_slack_across_two_ranks(two_ranks):
    """Rank 0 came 20 µs early to the sum, so its first node has that much; all else has none."""
    by_name = slack(two_ranks)
    assert by_name[0].tolist() == [20_000, 0, 0]
    assert by_name[1].tolist() == [0, 0, 0]


def test_gains_by_hand(two_ranks):
    """Compute twice as fast saves half of 30 and half of 5; the sum, half of 20."""
    gains = {
        g.what: g.saved_ns
        for g in what_if(two_ranks, [("compute", 2), ("communication", 2), ("update", 5)]).gains
    }
    assert gains == {"compute": 17_500, "communication": 10_000, "update": 4_000}


def test_a_send_that_waits_for_its_receive_does_not_work():
    """Rank 1 computes for 90 µs before it receives; in half of the time, all is over 45 µs sooner."""
    sender, receiver = TraceBuilder(), TraceBuilder()
    sender.send("give", 0, 1, 1000, start_time_ns=0, duration_ns=100_000)
    first = receiver.comp("kernel", stream=7, start_time_ns=0, duration_ns=90_000)
    receiver.recv("take", 0, 1, 1000, deps=[first], start_time_ns=90_000, duration_ns=10_000)
    run = Run([sender.build(), receiver.build()])
    by_name = {g.what: g.saved_ns for g in what_if(run).gains}
    assert by_name == {"compute": 45_000, "communication": 5_000}
    assert match_calls(run).wait.tolist() == [90_000, 0]


@pytest.mark.parametrize("seed", range(12))
def test_scheduled_again_a_run_is_itself(make_random, seed):
    run, _ = make_random(seed, ranks=3)
    model = model_of(run)
    base = model.schedule()
    for rank in run.ranks:
        first = model.offset[rank]
        assert (base.start[first : first + len(run.start(rank))] == run.start(rank)).all()
        assert (base.end[first : first + len(run.end(rank))] == run.end(rank)).all()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    ("what", "kind"), [("compute", "comp"), ("communication", "coll"), ("copy", "copy")]
)
def test_faster_classes_agree_with_simulating_them(make_random, oracle, seed, what, kind):
    run, programs = make_random(seed, ranks=3)
    result = what_if(run, [(what, 2.0)])
    for program in programs:
        for node in program:
            node["ns"] = node["ns"] // 2 if node["kind"] == kind else node["ns"]
    assert result.gains[0].makespan_ns == max(e for rank in oracle(programs) for _, e in rank)


@pytest.mark.parametrize("seed", range(6))
def test_slack_is_how_much_longer_a_node_may_take(make_random, oracle, seed):
    """Compute nodes lengthened by exactly their slack leave the run as long; by more they do not."""
    run, programs = make_random(seed, ranks=2)
    by_name = slack(run)
    whole = max(e for rank in oracle(programs) for _, e in rank)
    for rank, program in enumerate(programs):
        for row, node in enumerate(program):
            if node["kind"] == "coll":
                continue
            node["ns"] += int(by_name[rank][row])
            assert max(e for r in oracle(programs) for _, e in r) == whole
            node["ns"] += 100
            assert max(e for r in oracle(programs) for _, e in r) > whole
            node["ns"] -= int(by_name[rank][row]) + 100


def test_patterns_and_groups_select(two_ranks):
    result = what_if(two_ranks, [("group:1", 2), ("for.*", 2)])
    assert {g.what: g.nodes for g in result.gains} == {"group:1": 2, "for.*": 2}


@pytest.mark.parametrize(
    ("what", "factor"), [("compute", 0), ("compute", -1), ("(", 2), ("nothing", 2)]
)
def test_nonsense_is_refused(two_ranks, what, factor):
    with pytest.raises(ConfigError):
        what_if(two_ranks, [(what, factor)])


@pytest.mark.parametrize(
    "name", ["gpt2_124m_b8_s1024", "resnet50_b128", "gpt_fsdp_tp_4", "gpt_pp_2"]
)
def test_a_linked_run_scheduled_again_takes_as_long(linked, name):
    result = what_if(linked(name), [])
    assert result.scheduled_ns == pytest.approx(result.measured_ns, rel=0.01)


def forward_modules(view) -> np.ndarray:
    """The last kernel of every linear or convolution of the forward pass, in both steps."""
    phase, names = view.texts("phase")
    forward = np.array([n == "forward" for n in names])[phase] & (phase >= 0)
    operator = view.operator
    expected = {
        "aten::addmm",
        "aten::mm",
        "aten::cudnn_convolution",
        "aten::convolution",
        "aten::linear",
    }
    rows = [
        r
        for r in np.flatnonzero((view.kind == 0) & ~view.on_host & forward)
        if view.name(int(operator[r])) in expected
    ]
    last = {int(operator[r]): int(r) for r in sorted(rows, key=lambda r: view.start[r])}
    return np.array(sorted(last.values()))


@pytest.mark.parametrize("name", ["gpt2_124m_b8_s1024", "resnet50_b128"])
def test_longer_kernels_agree_with_hardware(linked, name):
    """The device spins after every linear module: what was measured, un-profiled, within 5 %."""
    run = linked(name, two_passes=True)
    model = model_of(run)
    view = rank_view(run, 0)
    rows = forward_modules(view)
    case = json.loads((DATA / "pytorch" / "counterfactual.json").read_text())["cases"][name]
    assert len(rows) == 2 * case["edits"][0]["count"]
    device = np.flatnonzero((view.kind <= 2) & ~view.on_host)
    steps = view.trace.column("step", -1)[device]
    for edit in case["edits"]:
        if edit["host_us"]:
            continue
        own_ns = model.own.copy()
        own_ns[rows] += edit["gpu_us"] * 1000
        end = model.schedule(own_ns).end
        before = end[np.flatnonzero(view.trace.column("orphan", False))].max()
        period = (end[device[steps == steps.max()]].max() - before) / 2
        assert period / 1e6 == pytest.approx(edit["step_ms_back_to_back"], rel=0.05), edit
