"""Weights that live in a store: what is loaded when, what is held, and what a step then takes."""

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError, TraceError
from chakrakit.passes import Offload
from chakrakit.trace.memory import allocations_of
from chakrakit.trace.model import NodeType, TraceBuilder
from chakrakit.trace.sets import TraceSet

HOST = {"host": {"kind": "local", "bandwidth": "50 GB/s"}}


@pytest.fixture(scope="module")
def prefill():
    made = ck.generate(
        model="llama3.1-8b", kind="prefill", seq=512, global_batch=1, micro_batch=1, data="none"
    )
    return made.traces


@pytest.fixture(scope="module")
def machine():
    device = {"peak": {"bf16": "400 TFLOP/s"}, "memory_bandwidth": "3 TB/s", "memory": "80 GB"}
    network = [{"topology": "switch", "size": 1, "bandwidth": "50 GB/s"}]
    return ck.machine({"device": device, "network": network, "storage": HOST})


def simulated(traces, machine):
    return ck.simulate(traces, machine, compute="roofline").summary


def layer_bytes(traces):
    """218.1 million weights of a layer of Llama 3.1 8B in bf16, norms left out."""
    return 2 * (4096 * 6144 + 4096 * 4096 + 4096 * 28672 + 14336 * 4096)


def test_a_step_is_as_long_as_all_layers_take_to_arrive(prefill, machine):
    summary = simulated(prefill | Offload(), machine)
    loads = 32 * layer_bytes(prefill) / 50e9
    assert summary.makespan_s == pytest.approx(loads, rel=0.02)
    host = next(t for t in summary.tiers if t.tier == "host")
    assert host.read_bytes == host.peak_bytes == 32 * layer_bytes(prefill)
    assert host.operations == 32


def test_training_loads_weights_for_each_direction_and_no_gradients():
    """Two layers: the second stays from its forward to its backward pass, the first comes twice.

    The second input of a product that computes a weight's gradient is no weight.
    """
    made = ck.generate(
        model="llama3.1-8b", layers=2, seq=512, global_batch=1, micro_batch=1, data="none"
    )
    for keep in (0.0, 0.25):
        told = Offload(keep=keep).explain(made.traces, made.traces | Offload(keep=keep))
        moved = 2 * layer_bytes(made.traces) * (1 - keep)
        assert told["loaded_bytes"] == pytest.approx(1.5 * moved)
        held = told["parameter_bytes"]
        assert held["before"] == held["after"]  # one runs while the other comes


def test_what_stays_on_the_device_is_not_loaded(prefill, machine):
    whole, half = (simulated(prefill | Offload(keep=k), machine) for k in (0.0, 0.5))
    read = [s.storage[0].read_bytes for s in (whole, half)]
    assert read[1] == pytest.approx(read[0] / 2)
    assert half.makespan_ns < whole.makespan_ns


def test_the_peak_is_that_of_the_account_and_falls_with_what_is_kept(prefill, machine):
    plain = simulated(prefill, machine).ranks[0].peak_bytes
    offloaded = prefill | Offload(keep=0.25)
    summary = simulated(offloaded, machine)
    run = ck.simulate(offloaded, machine, compute="roofline").run()
    trace = run.timed_trace(0)
    account = allocations_of(trace, trace.start_ns, trace.end_ns)
    assert summary.ranks[0].peak_bytes == account.peak_bytes
    moved = 0.75 * layer_bytes(prefill)
    assert summary.ranks[0].peak_bytes == pytest.approx(plain - 30 * moved)  # one runs, one comes
    assert summary.tiers[0].peak_bytes == summary.ranks[0].peak_bytes


def test_layers_under_way_are_parameters_and_the_cache_stays(prefill, machine):
    plain = simulated(prefill, machine).memory_by_kind
    for ahead in (1, 3, 31, 99):
        held = simulated(prefill | Offload(ahead=ahead), machine).memory_by_kind
        assert held["kv_cache"] == plain["kv_cache"]
        away = 32 - min(32, ahead + 1)
        assert held["parameters"] == plain["parameters"] - away * layer_bytes(prefill)


def test_layers_come_in_chunks_one_after_another(prefill, machine):
    chunked = prefill | Offload(chunks=4, yields=True)
    trace = chunked.trace(0)
    loads = trace.is_type(NodeType.MEM_LOAD_NODE)
    assert int(loads.sum()) == 4 * 32
    assert set(trace.column("link_priority", 0)[loads].tolist()) == {-1}
    assert int(trace.column("tensor_size", 0)[loads].sum()) == 32 * layer_bytes(prefill)


def test_experts_alone_can_be_offloaded():
    made = ck.generate(
        model="deepseek-v3-16b", kind="prefill", seq=64, global_batch=1, micro_batch=1, data="none"
    )
    explained = Offload(experts=True).explain(made.traces, made.traces | Offload(experts=True))
    each = 64 * 2 * (2048 * 2816 + 1408 * 2048)
    assert explained["loaded_bytes"] == 26 * each
    held = explained["parameter_bytes"]
    assert held["before"] - held["after"] == 24 * each  # one layer runs while another comes


def test_a_deeper_look_ahead_never_makes_a_step_longer(prefill, machine):
    times = [simulated(prefill | Offload(ahead=n), machine).makespan_ns for n in (1, 2, 4)]
    assert times == sorted(times, reverse=True)


def test_a_trace_without_layers_and_impossible_fields_are_refused():
    t = TraceBuilder()
    t.comp("work", num_ops=1)
    with pytest.raises(TraceError, match="`layer`"):
        (TraceSet.of(t) | Offload()).trace(0)
    for bad in ({"keep": 1.0}, {"ahead": 0}, {"chunks": 0}):
        with pytest.raises(ConfigError, match=r"give|should"):
            Offload(**bad)


def test_tiers_reach_the_command_the_analysis_and_the_report(prefill, machine, tmp_path):
    run = ck.simulate(prefill | Offload(), machine, compute="roofline").run()
    ck.write(run, tmp_path / "run")
    analysis = ck.analyze(str(tmp_path / "run"))
    assert [t.tier for t in analysis.tiers] == ["device", "host"]
    assert any(t.title == "tiers" and t.rows for t in analysis.tables())
    page = tmp_path / "page.html"
    ck.report(str(tmp_path / "run"), output=page)
    assert "peak GB" in page.read_text()
