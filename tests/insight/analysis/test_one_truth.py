"""Invariants over linked, generated, hand-built and random runs: whoever tells a figure, it is the same.

A run simulated with all times measured is itself; its analysis says the same; what an analysis says a
change would save is what simulating the changed trace gives; a comparison names what was changed.
"""

from __future__ import annotations

import re
from functools import cache
from random import Random

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.insight import AnalysisOptions, Comparison, analyze, compare
from chakrakit.passes.edit import Edit
from chakrakit.sources.pytorch.linking import LinkOptions, link
from chakrakit.trace.model import CollectiveType, TraceBuilder
from chakrakit.trace.sets import TraceSet
from chakrakit.trace.timing import schedule
from chakrakit.workloads.generate import generate
from support.paths import DATA
from support.random_plans import random_workload
from support.random_workloads import launched_case, random_case
from support.recorded import linked

LINKED = ("gpt2_124m_b8_s1024", "mlp_ddp_nccl_1", "cnn_ddp_2", "gpt_pp_2", "two_streams")
GENERATED = {
    "data and tensor parallel": {"dp": 2, "tp": 2},
    "pipeline and data parallel": {"pp": 2, "dp": 2},
}
QUICK = ("random 0", "random 1", "network 2", "network 26", "launched 0")
"""The random runs that `make check` tries."""
RANDOM = [f"random {seed}" for seed in range(6)]
NETWORKS = [f"network {seed}" for seed in (2, 5, 26, 41, 101, 105, 115, 116, 140, 251, 304)]
"""Random bodies with host threads, messages and edges of every form, on random networks."""
LAUNCHED = [f"launched {seed}" for seed in range(6)]
"""Random ranks with a host thread that launches, synchronizes, and takes several steps."""
PLANS = [f"plan {seed}" for seed in (0, 2, 3)]
SLOW = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in (*RANDOM, *NETWORKS, *LAUNCHED, *PLANS)
    if name not in QUICK
]
RUNS = [*LINKED, "as recorded", *GENERATED, "by hand", *QUICK, *SLOW]


@cache
def run_of(name: str) -> ck.Run:
    """A run by its name; all are made once."""
    if name in LINKED:
        return linked(name)
    if name == "as recorded":
        options = LinkOptions(as_recorded=True)
        return link([DATA / "pytorch" / "two_streams"], options)[0]
    if name in GENERATED:
        generated = ck.generate(model="gpt3-125m", seq=128, global_batch=8, **GENERATED[name])
        return ck.simulate(generated.traces, "dgx-h100", compute="roofline").run()
    if name == "by hand":
        return ck.simulate(by_hand(), "dgx-h100").run()
    how, seed = name.split()
    if how == "network":
        return ck.simulate(*random_case(int(seed))[:2]).run()
    if how == "launched":
        return ck.simulate(launched_case(int(seed)), "dgx-h100").run()
    if how == "plan":
        generated = generate(random_workload(Random(int(seed))))
        return ck.simulate(generated, "dgx-h100:32", compute="roofline").run()
    return ck.simulate(at_random(int(seed)), "dgx-h100").run()


def by_hand() -> TraceSet:
    """Two ranks: the second computes longer, both meet twice, the device has two streams."""
    bodies = []
    for slower in (1, 2):
        b = TraceBuilder()
        first = b.comp("matmul", duration_ns=40_000 * slower, stream=7)
        reduced = b.collective("sum", CollectiveType.ALL_REDUCE, 1 << 20, deps=[first], stream=9)
        beside = b.comp("softmax", duration_ns=25_000, stream=7, deps=[first])
        b.collective("gather", CollectiveType.ALL_GATHER, 1 << 18, deps=[reduced, beside], stream=9)
        bodies.append(b.build())
    return TraceSet(bodies)


def at_random(seed: int) -> TraceSet:
    """Ranks of random graphs that agree on their collectives."""
    rng = np.random.default_rng(seed)
    ranks, meetings = int(rng.integers(1, 5)), int(rng.integers(0, 6))
    sizes = [int(s) for s in rng.integers(1 << 10, 1 << 24, meetings)]
    bodies = []
    for _ in range(ranks):
        b, generated = TraceBuilder(), []
        for size in [0, *sizes]:
            for _ in range(int(rng.integers(1, 8))):
                deps = (
                    sorted({int(x) for x in rng.choice(generated, min(len(generated), 2))})
                    if generated
                    else []
                )
                name = f"op{rng.integers(4)}"
                nanos, stream = int(rng.integers(1_000, 200_000)), int(rng.integers(2))
                generated.append(b.comp(name, duration_ns=nanos, stream=stream, deps=deps))
            if size and ranks > 1:
                generated.append(
                    b.collective(
                        "sum", CollectiveType.ALL_REDUCE, size, deps=[generated[-1]], stream=9
                    )
                )
        bodies.append(b.build())
    return TraceSet(bodies)


@cache
def again(name: str) -> ck.Run:
    """The same run simulated, all its times measured."""
    return ck.simulate(run_of(name), compute="measured", communication="measured").run()


@cache
def analyzed(name: str) -> ck.Analysis:
    """The analysis of a run, made once."""
    return analyze(run_of(name))


def close(a: float, b: float, whole: float, share: float = 0.001) -> bool:
    return abs(a - b) <= share * whole + 2


@pytest.mark.first(1)
@pytest.mark.parametrize("name", RUNS)
def test_a_run_simulated_with_all_times_measured_is_itself(name):
    assert close(again(name).makespan_ns, run_of(name).makespan_ns, run_of(name).makespan_ns)


@pytest.mark.first(1)
@pytest.mark.parametrize("name", RUNS)
def test_its_analysis_says_the_same(name):
    a, b = analyzed(name), analyze(again(name))
    assert close(a.steps.median_ns, b.steps.median_ns, a.span_ns)
    assert a.bound == b.bound
    for x, y in zip(a.ranks, b.ranks, strict=True):
        for part in ("compute_ns", "comm_ns", "exposed_comm_ns", "copy_ns", "idle_ns"):
            ours, theirs = getattr(x.breakdown, part), getattr(y.breakdown, part)
            assert close(ours, theirs, a.span_ns, 0.01), part
    for what in {*a.critical_path.attribution, *b.critical_path.attribution}:
        ours, theirs = (s.critical_path.attribution.get(what, 0) for s in (a, b))
        assert close(ours, theirs, a.span_ns, 0.01), what
    spent = [{(o.name, o.kind): o.time_ns for o in s.operators.operators} for s in (a, b)]
    assert spent[0].keys() == spent[1].keys()
    assert all(close(spent[0][key], spent[1][key], a.span_ns, 0.01) for key in spent[0])
    assert a.memory.peak_bytes == b.memory.peak_bytes
    gains = [{g.what: g.saved_ns for g in s.what_if.gains} for s in (a, b)]
    assert gains[0].keys() == gains[1].keys()
    assert all(close(gains[0][k], gains[1][k], a.span_ns, 0.01) for k in gains[0])


@pytest.mark.first(1)
@pytest.mark.parametrize("name", RUNS)
def test_sums_are_the_whole(name):
    result = analyzed(name)
    path = result.critical_path
    assert sum(path.attribution.values()) == path.length_ns == result.span_ns
    assert sum(ns for _, _, ns in path.operators) == path.length_ns
    assert sum(path.by_rank.values()) == path.length_ns
    for rank in result.ranks:
        b = rank.breakdown
        assert b.busy_ns + b.idle_ns == result.span_ns
        assert sum(b.idle.values()) == b.idle_ns


WHATS = {
    "compute": Edit(scale=0.5, classes=("compute",)),
    "communication": Edit(scale=0.5, classes=("communication",)),
    "host": Edit(scale=0.5, on="host"),
}


@pytest.mark.first(13)
@pytest.mark.parametrize("what", WHATS)
@pytest.mark.parametrize("name", RUNS)
def test_what_a_change_would_save_is_what_simulating_it_saves(name, what):
    run = run_of(name)
    kinds = {g.what for g in analyzed(name).what_if.gains}
    if what not in kinds or ("host" in kinds and name in ("cnn_ddp_2", "gpt_pp_2")):
        pytest.skip("nothing of the kind, or no device: computation is then the host's own")
    gain = analyze(run, AnalysisOptions(((what, 2.0),))).what_if.gains[0]
    edited = ck.simulate(run | WHATS[what], compute="measured", communication="measured")
    assert close(edited.makespan_ns, gain.makespan_ns, run.makespan_ns, 0.01)


@pytest.mark.first(1)
@pytest.mark.parametrize("name", RUNS)
def test_what_a_class_costs_on_the_path_bounds_what_removing_it_saves(name):
    """Work that takes no time at all saves no more than the path holds of it."""
    result = analyzed(name)
    kinds = [g.what for g in result.what_if.gains]
    options = AnalysisOptions(tuple((what, 1e9) for what in kinds))
    parts = {"host": ("host", "launch", "synchronization", "unexplained", "dependency")}
    for gain in analyze(run_of(name), options).what_if.gains:
        on_path = sum(
            result.critical_path.attribution.get(w, 0) for w in parts.get(gain.what, (gain.what,))
        )
        assert gain.saved_ns <= on_path + 0.01 * result.span_ns, gain.what
        assert gain.saved_ns >= -0.001 * result.span_ns


@pytest.mark.first(2)
@pytest.mark.parametrize("name", [n for n in RUNS if n not in ("cnn_ddp_2", "gpt_pp_2")])
def test_a_comparison_names_what_was_changed(name):
    """One operator made slower explains at least 95 % of the change."""
    run = run_of(name)
    spent = [o for o in analyze(run).operators.kernels if o.kind == "compute"]
    if not spent:
        pytest.skip("nothing computes")
    kernel = max(spent, key=lambda o: o.time_ns).name
    edit = Edit(scale=1.5, names=(f"{re.escape(kernel)}$",))
    slower = ck.simulate(run | edit, compute="measured", communication="measured").run()
    result = compare(run, slower)
    assert result.step.delta_ns == sum(e.delta_ns for e in result.explained)
    if result.step.delta_ns:
        assert _names(result, "compute")
        assert not [e for e in result.explained if e.what.startswith("host")]


SLOWED = {
    "communication": Edit(scale=1.5, classes=("communication",)),
    "host": Edit(scale=1.5, on="host"),
}


@pytest.mark.first(4)
@pytest.mark.parametrize("what", SLOWED)
@pytest.mark.parametrize("name", [n for n in RUNS if n not in ("cnn_ddp_2", "gpt_pp_2")])
def test_a_comparison_names_the_class_that_was_slowed(name, what):
    """However many operators share the change; on a host without a device, the host computes."""
    run = run_of(name)
    if what not in {g.what for g in analyzed(name).what_if.gains}:
        pytest.skip("nothing of the kind")
    slower = ck.simulate(run | SLOWED[what], compute="measured", communication="measured").run()
    result = compare(run, slower)
    assert result.step.delta_ns == sum(e.delta_ns for e in result.explained)
    assert _names(result, what)


def _names(result: Comparison, what: str) -> bool:
    """Whether a class explains all but 5 % of the change; of unlike steps the usual one may shrink."""
    explained_ns = sum(e.delta_ns for e in result.explained if e.what.startswith(what))
    return abs(explained_ns - result.step.delta_ns) <= 0.05 * abs(result.step.delta_ns) + 2


@pytest.mark.parametrize("name", LINKED)
def test_a_linked_rank_scheduled_by_itself_has_its_own_times(name):
    """Times, own times and edges of what `link` writes agree to the nanosecond."""
    for _, trace in run_of(name):
        timed = schedule(len(trace), trace.edges, trace.own_ns)
        start = trace.start_ns - trace.start_ns.min()
        assert np.abs(timed.start - start).max() <= 1_000
        assert timed.makespan <= (start + trace.duration_ns).max() + 1_000
