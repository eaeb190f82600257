"""What rows make a device do: energies of products and of memory, and what goes with the clock."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from chakrakit import EdgeKind, Trace, TraceBuilder
from chakrakit.machines import parse_machine
from chakrakit.machines.device import Activity, PowerConstants, PowerLimited, Roofline, activity_of
from chakrakit.machines.device.activity import FILLS, LATENCY, REACHED, UNTOLD

CONSTANTS = {
    "clock_mhz": 2000,
    "least_clock_mhz": 500,
    "clock_watts": 100,
    "product_pj": {"bf16": 1.0, "fp8": 0.5},
    "memory_pj": 100,
    "voltage": 0.5,
    "knee_mhz": 1000,
    "memory_clock_mhz": 800,
}


def device(**more):
    text = {"peak": {"bf16": 100e12}, "memory_bandwidth": 1e12, "dynamic": CONSTANTS, **more}
    network = [{"topology": "ring", "size": 2, "bandwidth": 1e9}]
    return parse_machine({"device": text, "network": network}, "m").devices[0]


def rows(**columns: list) -> Trace:
    count = len(next(iter(columns.values())))
    return Trace.from_columns({"name": ["k"] * count, "type": [4] * count, **columns})


def active(trace: Trace, seconds: float = 0.02) -> Activity:
    constants = device().dynamic
    assert isinstance(constants, PowerConstants)
    return activity_of(trace, device(), constants, np.full(len(trace), seconds))


def test_products_cost_energy_by_element_type_and_bytes_by_the_memory() -> None:
    trace = rows(
        stream=[1, 1, 1],
        op_type=["matmul", "matmul", "norm"],
        dtype=["bf16", "fp8", "bf16"],
        num_ops=[10**12, 10**12, 0],
        tensor_size=[0, 0, 10**9],
    )
    found = active(trace)
    assert found.chip_joules[:2].tolist() == pytest.approx([1.0, 0.5])
    assert found.memory_joules.tolist() == pytest.approx([0, 0, 0.1])
    assert found.at_memory.tolist() == pytest.approx([0, 0, 1e9 / (REACHED * 0.02 * 1e12)])
    assert found.at_chip[:2].tolist() == [1, 1]


def test_what_memory_takes_of_a_kernel_does_not_follow_the_clock_and_most_of_the_rest_does() -> (
    None
):
    """In 20 ms memory moves 18.4 GB at most: 15 GB are most of it, and more came from a cache."""
    found = active(rows(stream=[1, 1], op_type=["norm", "norm"], tensor_size=[15 * 10**9, 10**11]))
    assert found.at_memory.tolist() == pytest.approx([15 / 18.4, 1.0])
    assert found.at_chip.tolist() == pytest.approx([(1 - LATENCY) * 3.4 / 18.4, 0.0])
    assert found.memory_joules[1] == pytest.approx(REACHED * 0.02 * 1e12 * 100e-12)


def test_a_kernel_of_which_nothing_is_known_streams_at_a_share() -> None:
    found = active(rows(stream=[1]))
    assert found.memory_joules[0] == pytest.approx(UNTOLD * REACHED * 0.02 * 1e12 * 100e-12)


def _cached(capacity: float) -> PowerConstants:
    return msgspec.convert({**CONSTANTS, "cache_bytes": capacity}, PowerConstants)


def test_weights_and_keys_come_from_memory_however_few_and_activations_from_the_cache() -> None:
    """Of 30 MB that fit in the cache, 20 are weights, or keys and values of one token's attention."""
    constants = _cached(35e6)
    trace = rows(
        stream=[1, 1, 1, 1],
        op_type=["matmul", "attention", "attention", "norm"],
        dtype=["bf16"] * 4,
        num_ops=[10**9, 10**9, 10**9, 0],
        tensor_size=[30 * 10**6] * 4,
        inputs_shapes=[
            "[[1,1000],[1000,10000]]",
            "[[1,8,1,100],[1,5,10000,100],[1,5,10000,100]]",
            "[[1,8,9,100],[1,5,10000,100],[1,5,10000,100]]",
            "[[1,1000],[1000,10000]]",
        ],
    )
    found = activity_of(trace, device(), constants, np.full(4, 0.02))
    assert found.memory_joules.tolist() == pytest.approx([20e6 * 100e-12] * 2 + [0, 0])
    alone = activity_of(trace.select([0]), device(), constants, np.full(1, 0.02))
    assert alone.memory_joules.tolist() == [0], "20 MB of weights stay in the cache"
    exact = activity_of(trace.select([0, 1]), device(), _cached(40e6), np.full(2, 0.02))
    assert exact.memory_joules.tolist() == [0, 0], "what fills the cache to the last byte stays too"


def test_small_kernels_leave_units_idle() -> None:
    constants = msgspec.convert({**CONSTANTS, "vector_watts": 200}, PowerConstants)
    trace = rows(stream=[1, 1], op_type=["vector"] * 2, tensor_size=[FILLS, FILLS / 2])
    found = activity_of(trace, device(), constants, np.full(2, 1.0))
    assert found.chip_joules.tolist() == pytest.approx([200, 100], rel=1e-4)


def test_the_host_does_nothing_on_the_device() -> None:
    found = active(rows(is_cpu_op=[True], num_ops=[10**12]))
    assert (found.seconds[0], found.chip_joules[0], found.memory_joules[0]) == (0, 0, 0)


def test_a_device_at_its_limit_lowers_its_clock_and_takes_longer() -> None:
    """A product of 10 ms at 100 TFLOP/s draws 50 + 100 + 100 W; at 200 W it cannot."""
    trace = rows(stream=[1], op_type=["matmul"], num_ops=[10**12])
    free, held = device(power=1000, idle_power=50), device(power=200, idle_power=50)
    model = PowerLimited(Roofline())
    assert model.costs(trace, free).ps[0] == 10**10
    assert model.lowest_share == 1
    slower = model.costs(trace, held).ps[0]
    draw = model.draw(trace, held)
    assert draw is not None
    assert slower == pytest.approx(10**10 / draw.share, rel=1e-6)
    assert model.lowest_share == draw.share < 1


def test_a_device_of_which_no_power_is_known_keeps_its_times() -> None:
    trace = rows(stream=[1], num_ops=[10**12])
    plain = device(dynamic=None)
    model = PowerLimited(Roofline())
    assert model.costs(trace, plain).ps[0] == Roofline().costs(trace, plain).ps[0]
    assert model.draw(trace, plain) is None


@pytest.mark.parametrize(
    ("kernel", "each"), [("simt_sgemm_128x256", 10.0), ("sm90_xmma_gemm_f32f32_tf32f32_f32", 2.0)]
)
def test_a_recorded_kernel_draws_what_the_units_take_that_its_name_tells(
    kernel: str, each: float
) -> None:
    """A product of float32 tensors on plain units takes five times the energy of one on TF32 units here."""
    t = TraceBuilder()
    mm = t.comp(
        "aten::mm",
        is_cpu_op=True,
        tid=1,
        inputs_shapes="[[512, 1024], [1024, 256]]",
        inputs_types='["Tensor(float)", "Tensor(float)"]',
    )
    t.edge(mm, t.comp(kernel, stream=7), EdgeKind.LAUNCH)
    by_type = {**CONSTANTS, "product_pj": {"bf16": 1.0, "tf32": 2.0, "fp32": 10.0}}
    drawing = device(dynamic=by_type)
    assert drawing.dynamic is not None
    trace = t.build()
    found = activity_of(trace, drawing, drawing.dynamic, np.full(len(trace), 0.02))
    assert found.chip_joules[1] == pytest.approx(2 * 512 * 1024 * 256 * each * 1e-12, rel=0.01)
