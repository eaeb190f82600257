"""Profiles and network models: what they are fitted on, what they say beyond it, and how sure they are."""

import math

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.machines import load_machine, parse_machine
from chakrakit.machines.device import (
    ClassModel,
    MeasuredRow,
    Prediction,
    Profile,
    Profiled,
    WrittenBack,
    find_profile,
    work_model,
)
from chakrakit.machines.device.profile import read_profile
from chakrakit.operators import (
    INDEXING,
    PRODUCT_MARKS,
    TABLED,
    Operation,
    Work,
    gemm_operation,
    operator_of,
)
from chakrakit.trace.model import NodeType, TraceBuilder


def ideal_table():
    """GEMMs at exactly 500 TFLOP/s, but never under 2 us."""
    rows = []
    for m in (64, 256, 1024, 4096):
        for n in (512, 2048, 8192):
            for k in (512, 2048, 8192):
                op = gemm_operation(m, n, k)
                rows.append(MeasuredRow([m, n, k], max(2.0, op.flops / 500e6), op.flops, op.bytes))
    return tuple(rows)


def test_a_table_gives_back_its_rows_and_what_lies_between():
    model = ClassModel(ideal_table())
    for row in model.rows[::5]:
        found = model.predict(Operation("gemm", tuple(row.shape), row.flops, row.bytes))
        assert found.us == pytest.approx(row.us, rel=0.02)
    op = gemm_operation(2048, 3072, 3072)
    assert model.predict(op).us == pytest.approx(op.flops / 500e6, rel=0.05)


def test_far_from_the_table_the_work_decides_and_the_error_grows():
    model = ClassModel(ideal_table())
    near, far = gemm_operation(4096, 8192, 8192), gemm_operation(65536, 65536, 65536)
    assert model.predict(far).us == pytest.approx(far.flops / 500e6, rel=0.1)
    assert model.predict(far).error > 3 * model.predict(near).error


def test_without_a_shape_flops_and_bytes_are_asked():
    op = gemm_operation(1024, 2048, 2048)
    found = ClassModel(ideal_table()).predict(Operation("gemm", (), op.flops, op.bytes))
    assert found.us == pytest.approx(op.flops / 500e6, rel=0.1)


def test_nothing_is_extrapolated_beyond_what_the_device_can_do():
    """Its table gets faster and faster; beyond it memory is the limit."""
    rows = [
        MeasuredRow([n], n / 1000 / (n / 1e6) ** 0.5, 0.0, float(n)) for n in (10**6, 10**7, 10**8)
    ]
    limits = {"peak": {"bf16": 1e15}, "memory_bandwidth": 10e9, "cache_bytes": 1e6}
    model = Profiled(Profile(classes={"elementwise": rows}, **limits))
    inside, beyond = (
        model.predict(Operation("elementwise", (n,), 0.0, float(n))) for n in (10**8, 10**12)
    )
    assert inside is not None
    assert inside.us == pytest.approx(rows[2].us, rel=0.05)
    assert beyond is not None
    assert beyond.us == pytest.approx((1e12 - 1e6) / 10e9 * 1e6)


def test_unaligned_products_are_a_class_apart():
    assert gemm_operation(8192, 50257, 768).kind == "gemm_odd"
    assert gemm_operation(8192, 50304, 768).kind == "gemm"
    assert gemm_operation(1, 2048, 2048).kind == "gemm"


def test_bad_profiles_are_refused(tmp_path):
    file = tmp_path / "p.json"
    file.write_text('{"classes": {"gemm": [{"shape": [1], "us": 1}, {"shape": [1, 2], "us": 1}]}}')
    with pytest.raises(ConfigError, match="mixes shapes"):
        read_profile(file)
    with pytest.raises(ConfigError, match="h200"):
        find_profile("no such profile")


def test_the_h200_profile_leaves_rows_out_and_still_finds_them():
    profile = find_profile("h200")
    assert "H200" in profile.device
    missed = np.abs(np.expm1(ClassModel(tuple(profile.classes["gemm.nt"])).leave_one_out))
    assert np.median(missed) < 0.08


def test_no_dense_product_of_the_h200_profile_is_faster_than_its_units():
    """One that was would be something else under its name: a sparse product, say."""
    profile = find_profile("h200")
    for name, rows in profile.classes.items():
        if name.startswith(("gemm", "bmm", "grouped")):
            dtype = next(
                (d for d, mark in PRODUCT_MARKS.items() if mark[1:] in name.split(".")), "bf16"
            )
            peak = profile.peak[dtype]
            assert max(r.flops / (r.us * 1e-6) for r in rows) <= peak, name


UNPAID = (Work.VIEW, Work.ALLOCATION, Work.QUESTION)


@pytest.mark.parametrize("machine", ["dgx-h200", "dgx-h100", "ethernet-100g"])
@pytest.mark.parametrize("compute", ["auto", "roofline"])
def test_no_operator_that_moves_bytes_is_free(machine, compute):
    """Whatever its arguments look like: they are few, and of no operator's own form here."""
    named = {*TABLED, *INDEXING, "an_operator_that_nobody_knows"}
    trace = TraceBuilder()
    for name in sorted(f"aten::{n.removeprefix('aten::')}" for n in named):
        operator = operator_of(name)
        if operator.work not in UNPAID:
            trace.comp(
                name,
                op_type=operator.op_type,
                dtype="fp32",
                tensor_size=12 << 20,
                inputs_shapes="[[1024,1024],[1024,1024],[1024]]",
                inputs_types='["Tensor(float)","Tensor(float)","Tensor(float)"]',
            )
    built = trace.build()
    costs = work_model(compute).costs(built, load_machine(machine).devices[0])
    free = {built.name(i) for i in np.flatnonzero(costs.ps <= 0)}
    assert not free
    assert len(built) > 150


LIMITS = {"peak": {"bf16": 1000e12, "fp32": 50e12}, "memory_bandwidth": 4e12}
"""Of the device that the profile was measured on."""


@pytest.mark.parametrize(
    ("changed", "operation", "us"),
    [
        # 0.8 PFLOP/s of 1 PFLOP/s make 1,000 us of its 1,100; these double, the latency stays.
        ({"bf16": 500e12}, Operation("gemm", (), 0.8e12, 0.0), 2100),
        ({"bf16": 2000e12}, Operation("gemm", (), 0.8e12, 0.0), 600),
        ({"memory_bandwidth": 1e12}, Operation("copy", (), 0.0, 3.2e9), 4100),
        ({"bf16": 500e12}, Operation("gemm", (), 40e9, 0.0, table="gemm.fp32"), 1100),
        ({"fp32": 25e12}, Operation("gemm", (), 40e9, 0.0, table="gemm.fp32"), 2100),
        # Work that would take longer than was measured is all that was measured.
        ({"bf16": 500e12}, Operation("gemm", (), 8e12, 0.0), 2200),
        # What memory takes there is more than what products take, which decided here.
        ({"memory_bandwidth": 1e12}, Operation("gemm", (), 0.4e12, 0.8e9), 1600),
    ],
)
def test_a_time_measured_on_one_device_is_carried_to_another(changed, operation, us):
    measured = Prediction(1100.0, 0.1, True)
    carried = Profiled(Profile(classes={}, **LIMITS)).carried(
        measured, operation, device_with(**changed)
    )
    assert carried.us == pytest.approx(us)
    assert carried.extrapolated
    assert carried.error == pytest.approx(0.1 if us == 1100 else 0.25)


@pytest.mark.parametrize(("peak", "us"), [(0.99e15, 100), (1.01e15, 100), (1.03e15, 97.0874)])
def test_devices_within_two_percent_are_the_same(peak, us):
    operation = Operation("gemm", (), 80e9, 0.0)
    profiled = Profiled(Profile(classes={}, **LIMITS))
    carried = profiled.carried(Prediction(100.0, 0.0), operation, device_with(bf16=peak))
    assert carried.us == pytest.approx(us)
    assert carried.error == (0.0 if us == 100 else 0.15)


def device_with(memory_bandwidth=LIMITS["memory_bandwidth"], **peak):
    """The device that was measured, but for these rates."""
    limits = {"peak": LIMITS["peak"] | peak, "memory_bandwidth": memory_bandwidth}
    network = [{"topology": "ring", "size": 2, "bandwidth": 1e9}]
    return parse_machine({"device": limits, "network": network}, "m").devices[0]


def profiled(**classes):
    """One measured row for each class: its shape, microseconds, FLOPs and bytes."""
    rows = {name.replace("_", "."): [MeasuredRow(*row)] for name, row in classes.items()}
    return Profiled(Profile(classes=rows))


def test_a_class_that_was_not_measured_is_asked_of_one_like_it():
    """Of its own kind it is as sure as the table; of a coarser class less."""
    asked = profiled(gemm_nt=([64, 64, 64], 2.0, 2e6, 1e4), gemm_nn=([64, 64, 64], 3.0, 2e6, 1e4))
    same, coarser = (
        asked.predict(Operation("gemm", (64, 64, 64), 2e6, 1e4, table=table))
        for table in ("", "gemm.nn.bias")
    )
    assert (same.us, same.extrapolated) == (pytest.approx(2.0), False)
    assert (coarser.us, coarser.extrapolated) == (pytest.approx(3.0), True)
    assert coarser.error == pytest.approx(same.error + 0.25)


@pytest.mark.parametrize(("flops", "moved", "us"), [(5e7, 2e6, 50), (1e7, 2e6, 20), (0.0, 0.0, 10)])
def test_what_no_class_knows_streams_its_bytes_or_computes_at_the_best_rate(flops, moved, us):
    """10 us for 1 MB, never less; 1 FLOP in a picosecond."""
    asked = profiled(elementwise=([10**6], 10.0, 0.0, 1e6), gemm_nt=([64, 64, 64], 2.0, 2e6, 1e4))
    prediction = asked.predict(Operation("fft", (), flops, moved))
    assert prediction.us == pytest.approx(us)
    assert (prediction.error, prediction.extrapolated) == (0.5, True)
    assert profiled(gemm_nt=([64, 64, 64], 2.0)).predict(Operation("fft", (), 1e7, 1e6)) is None


def test_a_class_of_large_operations_alone_has_a_floor_of_ten_times_the_device_s():
    asked = profiled(copy=([10**8], 100.0, 0.0, 1e8), add=([1000], 1.0, 0.0, 1e3))
    assert asked.predict(Operation("copy", (10**6,), 0.0, 1e6)).us == pytest.approx(10.0)


def test_no_product_is_extrapolated_beyond_the_best_rate_of_the_device():
    """1 GFLOP in 10 us were measured: at that rate 1 PFLOP would take 10 s, which 50 TFLOP/s cannot do."""
    rows = {"gemm.nt": [MeasuredRow([1000, 1000, 500], 10.0, 1e9, 0.0)]}
    limits = {"peak": {"fp32": 10e12, "bf16": 50e12}, "memory_bandwidth": 1e12}
    beyond, inside = (
        Profiled(Profile(classes=rows, **limits)).predict(Operation("gemm", shape, flops, 0.0))
        for shape, flops in (((10**5, 10**5, 50_000), 1e15), ((1000, 1000, 500), 1e9))
    )
    assert beyond.us == pytest.approx(1e15 / 50e12 * 1e6)
    assert inside.us == pytest.approx(10.0)  # as measured, however improbable


@pytest.mark.parametrize(
    ("operation", "us"),
    [
        # 1 TFLOP in fp32 takes 100 ms at its own 10 TFLOP/s, a convolution 40 ms in TF32.
        (Operation("gemm", (10**4, 10**4, 5000), 1e12, 0.0, table="gemm.fp32.nn"), 100_000),
        (Operation("conv", (10**4, 10**4, 5000), 1e12, 0.0, table="conv.fp32"), 40_000),
    ],
)
def test_a_product_is_bounded_by_the_rate_of_its_own_type(operation, us):
    rows = {
        table: [MeasuredRow([1000, 1000, 500], 1.0, 1e9, 0.0)]
        for table in ("gemm.fp32.nn", "conv.fp32")
    }
    limits = {"peak": {"fp32": 10e12, "tf32": 25e12, "bf16": 50e12}, "memory_bandwidth": 1e12}
    assert Profiled(Profile(classes=rows, **limits)).predict(operation).us == pytest.approx(us)


def test_a_large_product_is_no_slower_than_any_that_was_timed():
    """10 kFLOP in 10 us were measured: at that rate 1 TFLOP would take 1,000 s."""
    rows = {"gemm.nt": [MeasuredRow([10, 10, 50], 10.0, 1e4, 0.0)]}
    limits = {"peak": {"bf16": 50e12}, "memory_bandwidth": 1e12}
    beyond = Profiled(Profile(classes=rows, **limits)).predict(
        Operation("gemm", (10**4, 10**4, 5000), 1e12, 0.0)
    )
    assert beyond.us == pytest.approx(1e12 / 50e12 * 1e6 / 0.014)


def test_a_step_does_not_write_back_what_a_timing_left_in_the_cache():
    """Weights of 100 MB write back 1 - 1/e of a full cache; a result as large as they are, nothing."""
    rows = [MeasuredRow([1, 1000, 50_000], 60.0, flops=1e8, bytes=1e8)]
    back = WrittenBack(us=10.0, bytes=1e8)
    tables = {"classes": {"gemm": rows}, "peak": {"bf16": 1e15}, "memory_bandwidth": 4e12}
    profile = Profiled(Profile(written_back=back, **tables))
    product = Operation("gemm", (1, 1000, 50_000), 1e8, 1e8)
    assert profile.predict(product).us == pytest.approx(60 - 10 * (1 - math.exp(-1)), rel=1e-3)
    assert profile.predict(product, resident=1.0).us == pytest.approx(60)
    assert profile.as_timed(product).us == pytest.approx(60)
    square = Operation("gemm", (9000, 9000, 9), 1e8, 1e8)
    assert profile.predict(square).us == profile.as_timed(square).us
    fast = Profiled(Profile(written_back=WrittenBack(us=1e3, bytes=1e8), **tables))
    assert fast.predict(product).us == pytest.approx(25), "100 MB at 4 TB/s"


def test_batched_products_in_tf32_are_carried_from_16_bits_and_count_as_extrapolated():
    """The H200's tables have TF32 for single products alone, which reach 370 TFLOP/s at the most."""
    flops, moved = 2.0 * 64 * 1024**3, 4.0 * 64 * 3 * 1024**2
    rounded = Operation("gemm", (64, 1024, 1024, 1024), flops, moved, "bmm.tf32.nn")
    device, profile = load_machine("dgx-h200").device(0), work_model("h200")
    carried = profile.carried(profile.predict(rounded), rounded, device)
    assert carried.extrapolated
    assert 250 < flops / carried.us / 1e6 < 420


@pytest.mark.parametrize("machine", ["dgx-h100", "dgx-a100", "dgx-h200", "dgx-b200"])
def test_products_in_double_precision_are_no_faster_than_their_units(machine: str) -> None:
    device = load_machine(machine).devices[0]
    trace = ck.Trace.from_columns(
        {
            "name": ["aten::mm"],
            "type": [int(NodeType.COMP_NODE)],
            "inputs_shapes": ["[[4096,4096],[4096,4096]]"],
            "inputs_types": ['["Tensor(double)","Tensor(double)"]'],
            "num_ops": [2 * 4096**3],
            "stream": [7],
            "is_cpu_op": [False],
        }
    )
    seconds = work_model("auto").costs(trace, device).ps[0] * 1e-12
    assert 1 <= seconds * device.peak_rate("fp64") / (2 * 4096**3) < 2


@pytest.mark.parametrize("machine", ["dgx-h200", "dgx-h100", "dgx-a100"])
@pytest.mark.parametrize(
    ("table", "dtype"), [("gemm.fp64.nn", "fp64"), ("gemm.fp32.nn.complex", "fp32")]
)
def test_products_of_types_that_no_table_has_stay_below_their_rate(machine, table, dtype):
    flops, device = 2.0 * 4096**3, load_machine(machine).device(0)
    operation = Operation("gemm", (4096, 4096, 4096), flops, 24.0 * 4096**2, table)
    profile = work_model(device.profile)
    found = profile.carried(profile.predict(operation), operation, device)
    assert found.extrapolated
    assert 0.3 < flops / found.us / 1e-6 / device.peak_rate(dtype) < 1.01
