"""Other devices, precisions and factors: what changes is what should, by as much as the model says."""

from __future__ import annotations

from functools import cache

import msgspec
import numpy as np
import pytest

import chakrakit as ck
from chakrakit import CollectiveType, TraceBuilder, TraceSet
from chakrakit.errors import ConfigError, TraceError
from chakrakit.machines import load_machine
from chakrakit.machines.device import Roofline
from chakrakit.passes.recost import Recost
from chakrakit.simulator.results import simulate
from chakrakit.trace.memory import model_state
from chakrakit.workloads.description import Plan, Step, Workload
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import model_named
from support import paths
from support.recorded import linked

DATA = paths.DATA / "pytorch"


@cache
def generated():
    model = msgspec.structs.replace(model_named("llama3.1-8b"), layers=2)
    return generate(
        Workload(model=model, plan=Plan(dp=2, tp=2), step=Step(seq=512, global_batch=4))
    )


def measured():
    return linked("gpt2_124m_b8_s1024")


def change(traces, recost):
    """Class → ratio of its time after to before."""
    notes = recost.explain(traces, traces | recost)
    return {row["class"]: row["ratio"] for row in notes["classes"]}


def test_the_roofline_in_the_nodes_is_the_roofline_of_the_simulator():
    nodes = generated() | Recost("dgx-a100")
    device = load_machine("dgx-a100").devices[0]
    wanted = Roofline().costs(generated().body_at(0), device).ps
    compute = nodes.body_at(0).types == 4
    assert (abs(nodes.body_at(0).own_ns * 1000 - wanted)[compute] <= 500).all()
    ends = [
        simulate(nodes, "dgx-a100").makespan_ns,
        simulate(generated(), "dgx-a100", compute="roofline").makespan_ns,
    ]
    assert ends[0] == pytest.approx(ends[1], rel=1e-4)
    assert nodes.body_count == generated().body_count


@pytest.mark.slow
def test_a_profile_gives_the_times_the_simulator_gets_from_it():
    nodes = measured() | Recost("dgx-h200", compute="h200")
    ends = [
        simulate(nodes, "dgx-h200").makespan_ns,
        simulate(measured(), "dgx-h200", compute="h200").makespan_ns,
    ]
    assert ends[0] == pytest.approx(ends[1], rel=1e-3)


@pytest.mark.slow
def test_there_and_back_gives_the_measured_times():
    there = measured() | Recost("dgx-a100", measured_on="dgx-h200")
    back = there | Recost("dgx-h200", measured_on="dgx-a100")
    own = measured().trace(0).own_ns
    assert (abs(back.trace(0).own_ns - own) <= 1).all()
    same = measured() | Recost("dgx-h200", measured_on="dgx-h200")
    assert (same.trace(0).own_ns == own).all()


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["dgx-a100", "gb200-nvl72"])
def test_each_class_changes_between_the_ratios_of_rates_and_of_bandwidths(machine):
    old, new = (load_machine(m).devices[0] for m in ("dgx-h200", machine))
    found = change(measured(), Recost(machine, measured_on="dgx-h200"))
    bounds = sorted(
        [old.peak["bf16"] / new.peak["bf16"], old.memory_bandwidth / new.memory_bandwidth, 1]
    )
    for name, ratio in found.items():
        assert bounds[0] <= ratio * 1.001 and ratio <= bounds[-1] * 1.001, name  # noqa: PT018
    assert found["gemm"] == pytest.approx(old.peak["bf16"] / new.peak["bf16"], rel=0.2)
    assert found["layer_norm"] == pytest.approx(
        old.memory_bandwidth / new.memory_bandwidth, rel=0.02
    )
    assert found["host"] == 1


@pytest.mark.slow
def test_every_kernel_of_an_operator_takes_part():
    """An optimizer's step is many kernels, and the trace tells the work of the longest alone."""
    run = measured()
    slower = run | Recost("dgx-a100", measured_on="dgx-h200")
    notes = Recost("dgx-a100", measured_on="dgx-h200").explain(run, slower)
    adamw = next(row for row in notes["classes"] if row["class"] == "adamw")
    assert adamw["ratio"] == pytest.approx(4800 / 2039, rel=0.01)


def test_a_class_in_another_precision_has_other_bytes_and_times():
    before = generated() | Recost("dgx-h100")
    recost = Recost("dgx-h100", measured_on="dgx-h100", dtypes={"gemm": "fp8"})
    after = before | recost
    a, b = before.body_at(0), after.body_at(0)
    gemm = np.array(a.nodes["op_type"].to_pylist()) == "matmul"
    assert set(b.nodes.filter(gemm)["dtype"].to_pylist()) == {"fp8"}
    assert (2 * b.column("tensor_size", 0)[gemm] == a.column("tensor_size", 0)[gemm]).all()
    assert (b.column("num_ops", 0) == a.column("num_ops", 0)).all()
    assert (b.own_ns[~gemm] == a.own_ns[~gemm]).all()
    ratio = b.own_ns[gemm].sum() / a.own_ns[gemm].sum()
    assert ratio == pytest.approx(0.5, rel=0.02)


@pytest.mark.slow
def test_classes_are_scaled_by_what_is_given():
    found = change(measured(), Recost(scale={"gemm": 0.5, "host": 2.0, "elementwise": 1.0}))
    assert found["gemm"] == pytest.approx(0.5, rel=1e-4)
    assert found["host"] == pytest.approx(2.0, rel=1e-4)
    assert {r for c, r in found.items() if c not in ("gemm", "host")} == {1.0}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "recost changes nothing"),
        ({"measured_on": "dgx-h200", "scale": {"gemm": 2.0}}, "give machine"),
        (
            {"machine": "dgx-h200", "compute": "h200", "measured_on": "dgx-a100"},
            "a profile gives times",
        ),
        ({"dtypes": {"gemm": "int7"}}, "no type 'int7'"),
        ({"scale": {"gemm": -1.0}}, "scale: gemm: -1"),
    ],
)
def test_senseless_fields_are_refused(fields, said):
    with pytest.raises(ConfigError, match=said):
        Recost(**fields)


def test_what_is_not_there_is_an_error():
    with pytest.raises(TraceError, match="no node is of class 'gem'; there are"):
        _ = generated() | Recost(scale={"gem": 2.0})
    with pytest.raises(ConfigError, match="neither a file nor a preset"):
        _ = generated() | Recost("dgx-z9000")
    t = TraceBuilder()
    t.collective("of what", CollectiveType.ALL_REDUCE, 100)
    with pytest.raises(TraceError, match="no node of class 'communication' says its element type"):
        _ = TraceSet([t.build()]) | Recost(dtypes={"communication": "bf16"})
    with pytest.raises(ConfigError, match="these traces have times"):
        _ = measured() | Recost(dtypes={"gemm": "fp8"})


def test_precision_of_traces_without_times_needs_no_machine():
    after = generated() | Recost(dtypes={"gemm": "fp8"})
    assert "fp8" in after.body_at(0).nodes["dtype"].to_pylist()


@pytest.mark.slow
def test_element_types_that_were_only_guessed_are_not_written():
    recost = Recost("dgx-h200", measured_on="dgx-h200", dtypes={"gemm": "fp8"})
    after = (measured() | recost).trace(0)
    assert set(after.nodes["dtype"].to_pylist()) == {None, "fp8"}
    assert (
        "dtype"
        not in (measured() | Recost("dgx-a100", measured_on="dgx-h200")).trace(0).nodes.column_names
    )


def test_communication_on_the_host_is_scaled_where_it_is():
    run = linked("cnn_ddp_2")
    after = run | Recost(scale={"communication": 2.0})
    comm = run.trace(0).is_type(7)
    assert (after.trace(0).own_ns == np.where(comm, 2, 1) * run.trace(0).own_ns).all()


def test_a_machine_may_be_given_as_such():
    after = generated() | Recost(load_machine("dgx-a100"))
    assert after.body_at(0).nodes.equals((generated() | Recost("dgx-a100")).body_at(0).nodes)
    assert after.card.passes == ["recost{machine=dgx-a100}"]


def held(traces):
    """Bytes that rank 0 takes and releases, and the most it holds."""
    body = traces.trace(0)
    summary = ck.simulate(traces, "dgx-h100", compute="roofline").summary
    taken, released = (int(body.column(c, 0).sum()) for c in ("mem_alloc", "mem_free"))
    return taken, released, summary.ranks[0].peak_bytes


def test_what_nodes_hold_follows_their_element_type_and_model_state_does_not():
    plan = ck.generate(model="llama-3.1-8b", pp=2, layers=2, seq=256, global_batch=8).traces
    state = sum(part.bytes for part in model_state(plan.trace(0)))
    taken, released, peak = held(plan)
    assert taken == released
    every = dict.fromkeys(("gemm", "attention", "elementwise"), "fp8")
    halves = (taken // 2, released // 2, state + (peak - state) // 2)
    assert held(plan | Recost(dtypes=every)) == halves
    fewer, back, lower = held(plan | Recost(dtypes={"gemm": "fp8"}))
    assert fewer == back < taken
    assert state < lower < peak
