"""What a framework adds: factors on computed times by class of work, and nothing on recorded ones."""

import numpy as np
import pytest

import chakrakit as ck
from chakrakit import TraceBuilder
from chakrakit.errors import ConfigError
from chakrakit.machines import load_machine
from chakrakit.machines.device import InFramework, Roofline, framework_named
from chakrakit.machines.device.framework import Framework, frameworks


def rows():
    t = TraceBuilder()
    for op_type, dtype in (
        ("matmul", "bf16"),
        ("matmul", "fp8"),
        ("attention", "bf16"),
        ("vector", "bf16"),
    ):
        t.comp(op_type, num_ops=10**12, tensor_size=10**9, op_type=op_type, dtype=dtype)
    t.comp("timed", duration_ns=1000, op_type="vector")
    return t.build()


def test_each_class_has_its_factor_and_recorded_times_keep_theirs():
    framework = Framework("", products=2, narrow_products=3, attention=4, vector=5)
    device = load_machine("dgx-h100").devices[0]
    plain = Roofline().costs(rows(), device).ps
    longer = InFramework(Roofline(), framework).costs(rows(), device).ps
    assert np.allclose(longer / plain, [2, 3, 4, 5, 1])


def test_a_simulation_says_its_framework_and_takes_longer():
    traces = ck.generate(model="gpt3-125m", dp=2, seq=128, global_batch=2, layers=1).traces
    alone, within = (ck.simulate(traces, "dgx-h100", framework=f) for f in ("", "llm-foundry"))
    assert within.summary.framework == "llm-foundry"
    assert within.makespan_ns > alone.makespan_ns


def test_an_unknown_framework_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="megatron"):
        framework_named("megatro")
    assert all(f.about for f in frameworks().values())


def test_ranks_that_share_a_sequence_pay_for_its_parts():
    """Attention whose queries are a part of the keys; attention to all of its own sequence does not."""
    t = TraceBuilder()
    for queries in (1024, 4096):
        shapes = f"[[1,8,{queries},128],[1,8,4096,128],[1,8,4096,128]]"
        t.comp("a", num_ops=10**12, tensor_size=10**9, op_type="attention", inputs_shapes=shapes)
    framework = Framework("", attention=2, context_attention=3)
    device = load_machine("dgx-h100").devices[0]
    plain, longer = (
        m.costs(t.build(), device).ps for m in (Roofline(), InFramework(Roofline(), framework))
    )
    assert np.allclose(longer / plain, [6, 2])


def test_a_host_that_launches_experts_leaves_no_operation_shorter():
    """In a model with experts, dense rows too; what streams to experts has no factor of its own."""
    t = TraceBuilder()
    for name in ("layers.0.moe.permute", "layers.0.norm"):
        t.comp(name, tensor_size=10**8, op_type="vector")
    device = load_machine("dgx-h100").devices[0]
    kernels = Roofline().costs(t.build(), device).ps
    eager = Framework("", vector=3, experts_us=50.0)
    longer = InFramework(Roofline(), eager).costs(t.build(), device).ps
    assert kernels[0] < 50e6
    assert longer.tolist() == [50_000_000, max(50_000_000, 3 * int(kernels[1]))]


def test_a_host_launches_the_product_of_every_expert_that_a_rank_holds():
    """Eight experts of 16 tokens in FP8 are eight casts of 20 µs; in 16 bits they are one call, as a router.

    Where graphs replay layers without their experts, what is not of experts takes the time of its kernel.
    """
    t = TraceBuilder()
    t.comp("layers.0.norm", tensor_size=10**5, op_type="vector")
    for name, shapes, dtype in (
        ("layers.0.moe.experts.up", "[[8,16,64],[8,64,64]]", "fp8"),
        ("layers.0.moe.experts.down", "[[8,16,64],[8,64,64]]", "bf16"),
        ("layers.0.moe.router", "[[128,64],[64,8]]", "bf16"),
    ):
        work = {"num_ops": 10**6, "tensor_size": 10**5, "op_type": "matmul"}
        t.comp(name, inputs_shapes=shapes, dtype=dtype, **work)
    device = load_machine("dgx-h100").devices[0]
    for graphs, norm in (("none", 5_000_000), ("layers", 2_000_000)):
        eager = Framework("", experts_us=5.0, expert_us=20.0, graphs=graphs)
        longer = InFramework(Roofline(), eager).costs(t.build(), device).ps
        assert longer.tolist() == [norm, 165_000_000, 5_000_000, 5_000_000]


def test_a_host_takes_longer_where_a_forward_and_a_backward_take_turns():
    plan = {"model": "qwen3-30b-a3b", "layers": 2, "dp": 8, "ep": 8, "seq": 64, "global_batch": 32}
    device = load_machine("dgx-h100").devices[0]
    host = InFramework(Roofline(), Framework("", experts_us=100.0, turns=3.0))
    for beside, least in ((False, 100e6), (True, 300e6)):
        trace = ck.generate(**plan, exchange_overlap=beside).traces[0]
        assert host.costs(trace, device).ps[trace.column("num_ops", 0) > 0].min() == least


def test_operands_of_narrow_products_are_cast_once_for_both_of_their_products():
    """4 bytes for each of 10⁶ elements at 3.35 TB/s; weights' gradients read what was cast before."""
    t = TraceBuilder()
    for name, dtype in (("up", "fp8"), ("up.dw", "fp8"), ("up", "bf16")):
        work = {"num_ops": 10**9, "tensor_size": 10**6, "op_type": "matmul", "dtype": dtype}
        t.comp(name, inputs_shapes="[[1000,1000],[1000,64]]", **work)
    device = load_machine("dgx-h100").devices[0]
    plain, cast = (
        InFramework(Roofline(), Framework("", cast_bytes=b)).costs(t.build(), device).ps
        for b in (0.0, 4.0)
    )
    expected = 4e6 / (
        device.memory_bandwidth * device.achieved.get("memory", device.memory_efficiency)
    )
    assert (cast - plain).tolist() == pytest.approx([expected * 1e12, 0, 0], abs=1)


def test_products_in_fp4_have_a_factor_besides_that_of_narrow_ones():
    t = TraceBuilder()
    for dtype in ("bf16", "fp8", "fp4"):
        t.comp("mm", num_ops=10**12, tensor_size=10**6, op_type="matmul", dtype=dtype)
    device = load_machine("dgx-b200").devices[0]
    framework = Framework("", narrow_products=2.0, fp4_products=1.5)
    plain, longer = (
        m.costs(t.build(), device).ps for m in (Roofline(), InFramework(Roofline(), framework))
    )
    assert np.allclose(longer / plain, [1, 2, 3])


def test_profiles_of_recorded_steps_hold_what_a_step_sustains():
    """A profile of single operations is slowed by `sustained`; one calibrated on steps is not."""
    from chakrakit.machines.device import MeasuredRow, Profile, Profiled

    table = {"gemm": [MeasuredRow([4096, 4096, 4096], 100.0, 2.0 * 4096**3, 6.0 * 4096**2)]}
    t = TraceBuilder()
    shapes = "[[4096,4096],[4096,4096]]"
    t.comp(
        "mm", num_ops=2 * 4096**3, tensor_size=6 * 4096**2, op_type="matmul", inputs_shapes=shapes
    )
    device = load_machine("dgx-b200").devices[0]
    single, step = (
        Profiled(Profile(classes=table, of_steps=of_steps)).costs(t.build(), device).ps[0]
        for of_steps in (False, True)
    )
    assert single * device.sustained == pytest.approx(step, rel=1e-6)
