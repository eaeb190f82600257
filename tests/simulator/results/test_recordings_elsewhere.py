"""A recording on a machine with another device than its own."""

import re

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.machines import load_machine, recorded_on
from chakrakit.trace.model import EdgeForm, TraceBuilder
from chakrakit.trace.sets import Card, TraceSet
from support.recorded import linked

PRODUCT = {
    "op_type": "matmul",
    "dtype": "bf16",
    "inputs_shapes": "[[4096,4096],[4096,4096]]",
    "num_ops": 2 * 4096**3,
    "tensor_size": 3 * 2 * 4096**2,
}


def recording(name, kernel="nobody_knows_me", us=300):
    """A product that took 0.2 ms and a kernel of no known operation, as a linked recording."""
    t = TraceBuilder()
    first = t.comp("mm", duration_ns=200_000, stream=7, **PRODUCT)
    t.comp(kernel, duration_ns=us * 1000, stream=7, deps=[first])
    return TraceSet([t.build()], card=Card(tool="chakra link", settings={"recorded_on": name}))


def seconds(traces, machine, **options):
    return ck.simulate(traces, machine, **options).summary


def test_on_its_own_device_a_recording_keeps_its_times():
    done = seconds(recording("NVIDIA H200"), "dgx-h200")
    assert (done.makespan_ns, done.rung, done.notes) == (500_000, "recorded", [])


def test_elsewhere_it_is_carried_and_says_so():
    h200, a100 = (load_machine(m).devices[0] for m in ("dgx-h200", "dgx-a100"))
    done = seconds(recording("NVIDIA H200", us=300), "dgx-a100")
    unknown = 300_000 * h200.memory_bandwidth / a100.memory_bandwidth
    product = done.makespan_ns - unknown
    assert product / 200_000 == pytest.approx(989.4 / 312, rel=0.2)
    assert done.rung.startswith("recorded, carried by")
    assert "recorded on NVIDIA H200, carried to a100-sxm-80gb" in done.notes[0]
    assert "nobody_knows_me" in done.notes[1]
    assert {s.source for s in done.compute_sources} == {"profile", "scaled"}


def test_copies_from_the_host_keep_their_time_and_products_follow_the_rate():
    known = seconds(recording("NVIDIA H200"), "dgx-a100").makespan_ns
    h200, a100 = (load_machine(m).devices[0] for m in ("dgx-h200", "dgx-a100"))
    rest = 300_000 * h200.memory_bandwidth / a100.memory_bandwidth
    for kernel, factor in (("Memcpy HtoD (Pinned -> Device)", 1), ("nvjet_tst", 989.4 / 312)):
        done = seconds(recording("NVIDIA H200", kernel), "dgx-a100")
        assert done.makespan_ns - (known - rest) == pytest.approx(300_000 * factor, rel=1e-6)


def test_devices_rank_as_their_limits_do():
    names = ("dgx-b200", "mi300x", "dgx-h200", "dgx-h100", "dgx-a100", "l40s-pcie")
    steps = [seconds(recording("NVIDIA H200"), m).makespan_ns for m in names]
    assert steps == sorted(steps)


def test_measured_times_are_kept_and_named():
    done = seconds(recording("NVIDIA H200"), "dgx-a100", compute="measured")
    assert done.makespan_ns == 500_000
    assert done.notes == ["times are those of NVIDIA H200, as recorded"]


def test_a_framework_is_said_to_change_nothing():
    plain = seconds(recording("NVIDIA H200"), "dgx-a100")
    done = seconds(recording("NVIDIA H200"), "dgx-a100", framework="megatron")
    assert done.makespan_ns == plain.makespan_ns
    assert any("--framework megatron changes nothing" in n for n in done.notes)


def test_of_a_device_that_no_preset_has_operators_are_looked_up():
    done = seconds(recording("Tesla V100-SXM2-32GB"), "dgx-a100")
    other = seconds(recording("NVIDIA H200"), "dgx-a100")
    assert 300_000 < done.makespan_ns < other.makespan_ns
    assert "which no preset has" in done.notes[0]


def test_what_a_cpu_computed_takes_the_time_of_kernels():
    t = TraceBuilder()
    outer = t.comp("aten::linear", duration_ns=0, own_ns=5_000, is_cpu_op=True, tid=1)
    t.comp(
        "aten::mm", duration_ns=9_000_000, own_ns=9_000_000, is_cpu_op=True, tid=1, parent=outer,
        inputs_shapes="[[4096,4096],[4096,4096]]",
        inputs_types='["Tensor(c10::BFloat16)","Tensor(c10::BFloat16)"]',
        deps=[outer],
    )  # fmt: skip
    traces = TraceSet([t.build()], card=Card(settings={"recorded_on": "cpu"}))
    done = seconds(traces, "dgx-h100")
    assert 100_000 < done.makespan_ns < 500_000
    assert "recorded on a CPU" in done.notes[0]


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-80gb"),
        ("NVIDIA GB200", "gb200-gpu"),
        ("NVIDIA B200", "b200-sxm"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000"),
        ("AMD Instinct MI300X", "mi300x"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA H100 PCIe", None),
        ("Tesla T4", None),
    ],
)
def test_names_that_drivers_give(name, device):
    found = recorded_on(name).device
    assert (found and found.name) == device


@pytest.mark.parametrize("machine", ["dgx-a100", "rtx-pro-6000", "mi300x"])
def test_times_that_a_pass_carried_are_not_carried_again(machine):
    carried = recording("NVIDIA H200") | ck.Recost(machine, measured_on="dgx-h200")
    done = seconds(carried, machine)
    assert done.makespan_ns == sum(carried.body_at(0).own_ns)
    assert done.rung == "recorded"
    back = carried | ck.Recost("dgx-h200", measured_on=machine)
    assert seconds(back, "dgx-h200").makespan_ns == pytest.approx(500_000, abs=2)


def synchronized(name, gap_us):
    """Kernels that a host launches `gap_us` after one another, and waits for at the end."""
    t = TraceBuilder()
    kernels, before = [], None
    for _ in range(20):
        launch = t.comp(
            "aten::mm", duration_ns=gap_us * 1000, is_cpu_op=True, deps=[before] if before else []
        )
        kernels.append(t.comp("mm", duration_ns=200_000, stream=7, deps=[launch], **PRODUCT))
        before = launch
    wait = t.comp("cudaDeviceSynchronize", duration_ns=1000, is_cpu_op=True, deps=[before])
    t.edge(kernels[-1], wait, form=EdgeForm.FINISH_FINISH)
    return TraceSet([t.build()], card=Card(tool="chakra link", settings={"recorded_on": name}))


@pytest.mark.parametrize("gap_us", [5, 1000], ids=["device-bound", "host-bound"])
def test_a_carried_recording_is_as_sure_as_what_bounds_it(gap_us):
    done = seconds(synchronized("NVIDIA H200", gap_us), "dgx-a100")
    low, high = done.interval_ns
    assert low < 0.97 * done.makespan_ns
    assert high > 1.03 * done.makespan_ns
    groups = done.interval_groups
    assert max(groups, key=lambda name: groups[name][0]).startswith(
        "kernel/" if gap_us == 5 else "host/"
    )


def test_products_of_a_cpu_recording_take_the_time_of_kernels():
    """Most of a CPU operator's time lies after the last row that it calls, which is a gap of its thread."""
    run = linked("cnn_ddp_2")
    products = r"aten::(addmm|mm|mkldnn_convolution|convolution_backward)$"
    there = ck.simulate(run, "dgx-h100").run()
    spent = dict.fromkeys(("here", "there"), 0)
    for name, recorded in (("here", run), ("there", there)):
        trace = recorded.trace(0)
        named = np.array([bool(re.search(products, n)) for n in trace.names.to_pylist()])
        spent[name] = int((recorded.end(0) - recorded.start(0))[named].sum()) * recorded.tick_ps
    assert 0 < spent["there"] < 0.2 * spent["here"]


def test_a_recording_whose_device_was_taken_away_says_that_its_times_are_kept():
    hidden = ck.transform(recording("NVIDIA H200"), ["anonymize{key=k}"]).traces
    assert any("no longer names" in note for note in seconds(hidden, "dgx-a100").notes)
