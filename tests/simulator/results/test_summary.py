"""What a simulation comes to: time, memory, utilization, energy, price."""

from collections import Counter

import pytest

import chakrakit as ck
from chakrakit import Binding, CollectiveType, Groups, TraceBuilder, TraceSet
from chakrakit.machines import parse_machine
from chakrakit.simulator.results import simulate
from support.simulated import one_device

AR = CollectiveType.ALL_REDUCE


def test_memory_from_allocations_and_from_lifetimes():
    t = TraceBuilder()
    a = t.comp("a", duration_ns=10, mem_alloc=100, stream=0)
    b = t.comp("b", duration_ns=10, deps=[a], mem_alloc=50, stream=0)
    t.comp("c", duration_ns=10, deps=[b], mem_alloc=30, mem_free=150, stream=0)
    done = simulate(TraceSet([t.build()]), one_device())
    assert done.summary.ranks[0].peak_bytes == 180
    assert done.run().counters["memory"]["bytes"].to_pylist()[-1] == 30
    t = TraceBuilder()
    a = t.comp("a", duration_ns=10, inputs=["w", "7"], outputs=["x", "100"])
    b = t.comp("b", duration_ns=10, deps=[a], inputs=["x", "100"], outputs=["y", "50"])
    t.comp("c", duration_ns=10, deps=[b], inputs=["y", "50"])
    done = simulate(TraceSet([t.build()]), one_device())
    assert done.summary.ranks[0].peak_bytes == 157
    assert done.summary.memory_holders == [("x", 100), ("y", 50), ("w", 7)]


def test_summary_adds_up():
    t = TraceBuilder()
    work = t.comp("w", duration_ns=10_000, num_ops=10**9)
    t.collective("c", AR, 10**6, deps=[work])
    traces = TraceSet([t.build()], {i: Binding(0) for i in range(8)}, Groups({"": range(8)}))
    s = simulate(traces, "dgx-h100").summary
    rank = s.ranks[3]
    assert rank.compute_ns == 10_000
    assert rank.finish_ns == pytest.approx(rank.compute_ns + rank.exposed_comm_ns + rank.idle_ns)
    assert s.mfu == pytest.approx(10**9 / (989.4e12 * s.makespan_ns * 1e-9))
    assert s.energy_joules == pytest.approx(sum(s.energy_by_class.values()))
    assert s.price == pytest.approx(8 * 6.155 * s.makespan_ns * 1e-9 / 3600)
    assert 0 < s.collectives[0].ideal_share <= 1
    assert s.fold.factor == 8


@pytest.mark.parametrize("kind", [AR, CollectiveType.ALL_GATHER])
def test_no_collective_is_faster_than_its_ideal_on_links_that_differ(kind):
    inside, between = ({"topology": "switch", "bandwidth": b} for b in ("450 GB/s", "50 GB/s"))
    slow = {"ranks": "0-7", "bandwidth": "1 MB/s", "dimension": 0}
    network = [{**inside, "size": 8}, {**between, "size": 2}]
    machine = parse_machine({"network": network, "changes": [slow]}, "m")
    t = TraceBuilder()
    t.collective("c", kind, 1 << 20)
    traces = TraceSet([t.build()], {i: Binding(0) for i in range(16)}, Groups({"": range(16)}))
    (took,) = simulate(traces, machine).summary.collectives
    assert took.ideal_share == 1


@pytest.mark.parametrize(
    "kind", [AR, CollectiveType.ALL_GATHER, CollectiveType.BROADCAST, CollectiveType.ALL_TO_ALL]
)
def test_no_collective_is_faster_than_all_ports_of_a_node_allow(kind):
    """Libraries send by the eight ports of a node at once, not by the one of a ring's link."""
    t = TraceBuilder()
    t.collective("c", kind, 1 << 28)
    traces = TraceSet([t.build()], {i: Binding(0) for i in range(32)}, Groups({"": range(32)}))
    (took,) = simulate(traces, "dgx-h100:4").summary.collectives
    assert took.ideal_share is not None
    assert 0.1 < took.ideal_share <= 1


def test_recomputation_counts_for_the_hardware_and_not_for_the_model():
    """A quarter of the FLOPs are activations computed again."""
    t = TraceBuilder()
    for phase, flops in (("forward", 10**9), ("recompute", 10**9), ("backward", 2 * 10**9)):
        t.comp(phase, phase=phase, num_ops=flops, duration_ns=1_000_000)
    s = ck.simulate(TraceSet.of(t), "dgx-h100").summary
    assert s.hfu == pytest.approx(4 * 10**9 / (989.4e12 * s.makespan_ns * 1e-9))
    assert s.mfu == pytest.approx(s.hfu * 3 / 4)
    assert s.ranks[0].recomputed_flops == 10**9
    run = ck.simulate(TraceSet.of(t), "dgx-h100").run()
    found = ck.analyze(run, peak_tflops=989.4).roofline
    assert (found.mfu, found.hfu) == pytest.approx((s.mfu, s.hfu))
    assert "without recomputation" in found.table().title


def test_scores_that_attention_computes_again_are_not_the_models():
    """Forward two products, backward four gradients and the scores again: six of seven are the model's."""
    t = TraceBuilder()
    name, product = "aten::_scaled_dot_product_flash_attention", 10**9
    for suffix, products in (("", 2), ("_backward", 5)):
        t.comp(name + suffix, num_ops=products * product, duration_ns=1_000_000)
    result = ck.simulate(TraceSet.of(t), "dgx-h100", compute="measured")
    assert result.summary.ranks[0].recomputed_flops == product
    assert result.summary.mfu == pytest.approx(result.summary.hfu * 6 / 7)
    found = ck.analyze(result.run(), peak_tflops=989.4).roofline
    assert (found.mfu, found.hfu) == pytest.approx((result.summary.mfu, result.summary.hfu))


@pytest.mark.parametrize("jitter", [0.0, 0.01])
def test_collectives_are_counted_over_all_ranks_folded_or_not(jitter):
    """Ranks alike are simulated once; with jitter no two are."""
    made = ck.generate(model="gpt3-125m", dp=2, tp=2, pp=2, seq=128, global_batch=4, layers=2)
    simulated = ck.simulate(made.traces, "dgx-h100", jitter=jitter)
    assert (simulated.summary.fold.factor > 1) == (jitter == 0)
    counts = Counter()
    for row in simulated.summary.collectives:
        counts[row.collective] += row.count
    assert counts.pop("message") == 2 * 2 * 2 * 2  # tp × dp × micro-batches × both ways
    analyzed = Counter()
    for row in ck.analyze(simulated.run(), advice=False).collectives:
        analyzed[row.type.lower().replace("_", "-")] += row.count
    assert counts == analyzed
