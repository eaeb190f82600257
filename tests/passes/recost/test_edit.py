"""Edits reproduce what a program measured when it was slowed, and touch nothing else."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

import chakrakit
from chakrakit import EdgeKind, TraceBuilder, TraceSet
from chakrakit.errors import ConfigError
from chakrakit.passes.edit import Edit
from chakrakit.simulator.results import simulate
from chakrakit.sources.pytorch.linking import LinkOptions, link
from chakrakit.trace.timing import schedule
from support import paths
from support.comparing import differences

DATA = paths.DATA / "pytorch"
MODULES = {"gpt2_124m_b8_s1024": "aten::(addmm|linear)$", "resnet50_b128": "aten::(conv2d|linear)$"}
MEASURED = json.loads((DATA / "counterfactual.json").read_text())["cases"]


@cache
def two_steps(name):
    """A recording in two passes, as the program ran without the observer."""
    options = LinkOptions(times=(DATA / name / "kineto_only.json.gz",), undilate=True)
    return link([DATA / name / "et.json.gz", DATA / name / "kineto.json.gz"], options)[0]


def step_ms(traces):
    """Mean period of the two steps on the device, from the schedule alone."""
    trace = traces.trace(0)
    end = schedule(len(trace), trace.edges, trace.own_ns).end
    device = ~trace.column("is_cpu_op").astype(bool)
    step, orphan = trace.column("step", -1), trace.column("orphan", False).astype(bool)
    ends = [end[orphan].max()] + [end[device & (step == s)].max() for s in (4, 5)]
    return float(np.diff(ends).mean()) / 1e6


def slowed(name, gpu_us, host_us):
    """The device or the host spins after every linear or convolution module of the forward pass."""
    traces = two_steps(name)
    for side, us in (("device", gpu_us), ("host", host_us)):
        if us:
            traces = traces | Edit(add_us=us, on=side, names=(MODULES[name],), phases=("forward",))
    return traces


@pytest.mark.parametrize("name", MODULES)
def test_edits_of_the_trace_give_the_steps_that_edits_of_the_program_gave(name):
    """The bounds are those the linker holds: 5 % for the device, 20 % for the host."""
    for edit in MEASURED[name]["edits"]:
        found = step_ms(slowed(name, edit["gpu_us"], edit["host_us"]))
        bound = 0.2 if edit["host_us"] else 0.05
        assert found == pytest.approx(edit["step_ms_back_to_back"], rel=bound), edit


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("side", ["device", "host"])
def test_as_many_nodes_change_as_there_were_modules(name, side):
    run = two_steps(name)
    edited = run | Edit(add_us=50, on=side, names=(MODULES[name],), phases=("forward",))
    grown = edited.trace(0).own_ns - run.trace(0).own_ns
    assert np.count_nonzero(grown) == 2 * MEASURED[name]["edits"][0]["count"]
    assert set(grown.tolist()) == {0, 50_000}


@pytest.mark.slow
def test_the_simulator_takes_an_edited_trace():
    before, after = (
        simulate(t, "dgx-h200").makespan_ns
        for t in (two_steps("resnet50_b128"), slowed("resnet50_b128", 800, 0))
    )
    assert after - before == pytest.approx(2 * 54 * 800_000, rel=0.02)


def recorded():
    """outer calls inner, which launches a and b; then alone launches c."""
    t = TraceBuilder()
    host = {"is_cpu_op": True, "tid": 7}
    outer = t.comp("outer", start_ns=0, duration_ns=100, own_ns=40, module="m.x", **host)
    inner = t.comp("inner", start_ns=10, duration_ns=60, module="m.x", **host)
    alone = t.comp("alone", start_ns=120, duration_ns=20, module="m.y", **host)
    a, b, c = (
        t.comp(n, start_ns=s, duration_ns=d, stream=1)
        for n, s, d in (("a", 20, 30), ("b", 50, 40), ("c", 130, 50))
    )
    t.edge(outer, inner, EdgeKind.CALL, lag_ns=10)
    t.edge(outer, alone, EdgeKind.THREAD, lag_ns=20)
    for host_row, kernel in ((inner, a), (inner, b), (alone, c)):
        t.edge(host_row, kernel, EdgeKind.LAUNCH)
    return TraceSet([t.build()])


@pytest.mark.parametrize(
    ("edit", "own"),
    [
        (Edit(scale=2), [40, 60, 20, 60, 80, 100]),
        (Edit(add_us=1), [40, 60, 20, 1030, 1040, 1050]),
        (Edit(scale=2, names=("outer",)), [40, 60, 20, 60, 80, 50]),
        (Edit(add_us=1, names=("outer",)), [40, 60, 20, 30, 1040, 50]),
        (Edit(add_us=1, names=("outer", "inner", "alone")), [40, 60, 20, 30, 1040, 1050]),
        (Edit(add_us=1, names=("a$",)), [40, 60, 20, 1030, 40, 50]),
        (Edit(scale=0, modules=("m.y",)), [40, 60, 20, 30, 40, 0]),
        (Edit(scale=3, nodes=(4,)), [40, 60, 20, 30, 120, 50]),
        (Edit(scale=3, nodes=(0,), on="host"), [120, 180, 20, 30, 40, 50]),
        (Edit(add_us=1, names=("outer",), on="host"), [40, 1060, 20, 30, 40, 50]),
        (Edit(add_us=-0.03, names=("a",)), [40, 60, 20, 0, 40, 20]),
        (Edit(scale=0.5, classes=("host",), on="host"), [20, 30, 10, 30, 40, 50]),
    ],
    ids=str,
)
def test_what_an_edit_means(edit, own):
    assert (recorded() | edit).trace(0).own_ns.tolist() == own


def test_gaps_inside_scaled_host_work_scale_and_those_before_it_do_not():
    edges = (recorded() | Edit(scale=3, names=("outer",), on="host")).trace(0).edges
    lags = {
        (int(s), int(d)): int(lag)
        for s, d, lag in zip(edges.src, edges.dst, edges.lag, strict=True)
    }
    assert (lags[0, 1], lags[0, 2]) == (30, 20)


def test_what_a_call_does_after_its_last_row_is_scaled_with_it():
    """outer works 40 ns after inner, then the host does nothing for 20 ns before it calls next."""
    t = TraceBuilder()
    host = {"is_cpu_op": True, "tid": 7}
    outer = t.comp("outer", start_ns=0, duration_ns=100, own_ns=50, **host)
    inner = t.comp("inner", start_ns=10, duration_ns=50, **host)
    following = t.comp("next", start_ns=120, duration_ns=30, **host)
    t.edge(outer, inner, EdgeKind.CALL, lag_ns=10)
    t.edge(inner, following, EdgeKind.THREAD, lag_ns=60)
    edited = (TraceSet([t.build()]) | Edit(scale=0.5, names=("outer",), on="host")).trace(0)
    assert edited.edges.lag.tolist() == [5, 40]
    assert schedule(len(edited), edited.edges, edited.own_ns).makespan == 100  # 50 + 20 + 30


def test_what_was_recorded_around_it_stays():
    before, after = recorded().trace(0), (recorded() | Edit(add_us=9, on="host")).trace(0)
    assert (before.start_ns == after.start_ns).all()
    assert (before.duration_ns == after.duration_ns).all()  # it holds what ran inside


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "changes nothing"),
        ({"scale": -1}, "scale=-1"),
        ({"scale": float("nan")}, "scale=nan"),
        ({"add_us": float("inf")}, "add_us=inf"),
        ({"add_us": 1e30}, "it should be at most"),
    ],
)
def test_senseless_edits_are_refused(fields, said):
    with pytest.raises(ConfigError, match=said):
        Edit(**fields)


def test_an_edit_that_means_no_node_is_an_error():
    with pytest.raises(ConfigError, match=r"names: no node has 'nobody'; there are a, alone"):
        _ = recorded() | Edit(scale=2, names=("nobody",))
    with pytest.raises(ConfigError, match="not a regular expression"):
        _ = recorded() | Edit(scale=2, names=("(",))


def test_the_notes_give_each_class_before_and_after():
    before = recorded()
    rows = Edit(scale=2).explain(before, before | Edit(scale=2))["classes"]
    assert rows[0] == {
        "class": "other",
        "nodes": 3,
        "before_ns": 120,
        "after_ns": 240,
        "ratio": 2.0,
    }
    assert rows[1]["ratio"] == 1.0


@pytest.mark.slow
def test_a_simulated_run_is_edited_in_the_times_it_had():
    run = simulate(recorded(), "dgx-h100").run()
    doubled = run | Edit(scale=2)
    assert type(doubled) is TraceSet
    assert doubled.trace(0).own_ns[3:].tolist() == [60, 80, 100]


def test_ranks_that_are_slower_by_a_scale_are_edited_as_they_are():
    t = TraceBuilder()
    t.comp("k", duration_ns=100)
    bindings = {
        0: chakrakit.Binding(0),
        1: chakrakit.Binding(0, scale=3.0),
        2: chakrakit.Binding(0),
    }
    after = TraceSet([t.build()], bindings) | Edit(add_us=0.05)
    assert [int(after.trace(r).own_ns[0]) for r in range(3)] == [150, 350, 150]
    assert after.body_count == 2


@pytest.mark.parametrize("side", ["device", "host"])
def test_time_that_is_added_and_taken_away_leaves_no_trace(side):
    names = ("outer", "alone")
    there = recorded() | Edit(add_us=1.5, on=side, names=names)
    assert differences(there | Edit(add_us=-1.5, on=side, names=names), recorded()) == []


def test_without_times_nothing_runs_inside_another():
    t = TraceBuilder()
    t.comp("long", duration_ns=100, is_cpu_op=True, tid=1)
    t.comp("short", duration_ns=10, is_cpu_op=True, tid=1)
    after = TraceSet([t.build()]) | Edit(scale=2, names=("long",), on="host")
    assert after.trace(0).own_ns.tolist() == [200, 10]


def test_no_factor_makes_time_overflow():
    slow = (recorded() | Edit(scale=1e300)).trace(0).own_ns
    assert (slow[3:] == slow.max()).all()
    assert slow.max() > 10**15
