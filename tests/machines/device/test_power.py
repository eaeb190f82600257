"""What a device draws, and the clock its limit leaves it."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from chakrakit.errors import ConfigError
from chakrakit.machines import load_machine, parse_machine
from chakrakit.machines.device import Activity, Draw, PowerConstants, clock_within
from chakrakit.simulator.results import simulate
from chakrakit.trace.model import TraceBuilder
from chakrakit.trace.sets import TraceSet

SIMPLE = PowerConstants(
    clock_mhz=2000,
    least_clock_mhz=500,
    clock_watts=100,
    product_pj={"bf16": 1.0},
    memory_pj=100,
    voltage=0.5,
    knee_mhz=1000,
    memory_clock_mhz=800,
)


def activity(seconds, chip, memory, follows=True, timed=False):
    return Activity(
        seconds=np.array([seconds]),
        chip_joules=np.array([chip]),
        memory_joules=np.array([memory]),
        at_memory=np.array([0.0 if follows else 1.0]),
        at_chip=np.array([1.0 if follows else 0.0]),
        timed_one_by_one=np.array([timed]),
    )


def test_voltage_falls_to_the_knee_and_the_clocks_power_with_its_square():
    at = {share: Draw(constants=SIMPLE, share=share) for share in (1.0, 0.75, 0.5, 0.25)}
    assert [d.voltage for d in at.values()] == [1.0, 0.75, 0.5, 0.5]
    assert [d.clock_watts for d in at.values()] == [100, 42.1875, 12.5, 6.25]


def test_a_knee_at_the_highest_clock_leaves_the_voltage_as_it_is():
    flat = msgspec.structs.replace(SIMPLE, knee_mhz=SIMPLE.clock_mhz)
    assert [Draw(constants=flat, share=s).voltage for s in (1.0, 0.25)] == [1.0, 1.0]


def test_products_of_a_profile_are_slower_only_below_the_clock_they_ran_at():
    constants = msgspec.structs.replace(SIMPLE, timed_share=0.8)
    work = activity(1.0, 1.0, 0.0, timed=True)
    found = [Draw(constants=constants, share=s).stretch(work)[0] for s in (1.0, 0.9, 0.8, 0.4)]
    assert found == [1.0, 1.0, 1.0, 2.0]


def test_a_limit_is_met_by_the_highest_clock_that_meets_it():
    work = activity(1.0, 600.0, 0.0)
    assert clock_within(SIMPLE, work, 50, 1000, 0.0).share == 1.0  # 50 + 100 + 600 W
    held = clock_within(SIMPLE, work, 50, 400, 0.0)
    assert held.mean_watts(work, 50, 0.0) == pytest.approx(400, rel=1e-3)
    assert held.stretch(work)[0] == pytest.approx(1 / held.share)


def test_a_device_that_waits_may_draw_more_while_it_works():
    work = activity(1.0, 600.0, 0.0)
    shares = [clock_within(SIMPLE, work, 50, 500, waits).share for waits in (0.0, 0.2, 1.0)]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_memory_keeps_its_pace_until_the_chip_cannot_ask_for_more():
    work = activity(1.0, 0.0, 300.0, follows=False)
    assert [float(Draw(constants=SIMPLE, share=s).stretch(work)[0]) for s in (1, 0.5, 0.2)] == [
        1,
        1,
        2,
    ]


def product(n, **more):
    t = TraceBuilder()
    t.comp("mm", num_ops=2 * n**3, tensor_size=6 * n * n, op_type="matmul", dtype="bf16", **more)
    return TraceSet([t.build()])


def test_a_large_product_lowers_the_clock_of_an_h200():
    """Measured there: 8192 cubed at 690 W and 1.47 to 1.5 GHz instead of 1.98."""
    found = simulate(product(8192), "dgx-h200", compute="roofline").summary
    assert found.energy_joules / (found.makespan_ns * 1e-9) == pytest.approx(690, rel=0.01)
    assert found.clock_mhz == pytest.approx(1485, rel=0.08)
    unlimited = load_machine("dgx-h200")
    strong = [msgspec.structs.replace(d, power=5000.0) for d in unlimited.devices]
    free = simulate(product(8192), replace(unlimited, devices=tuple(strong)), compute="roofline")
    assert found.makespan_ns / free.makespan_ns == pytest.approx(1980 / found.clock_mhz, rel=1e-3)


def test_what_was_measured_keeps_its_time_and_draws_no_more_than_the_limit():
    found = simulate(product(8192, duration_ns=1_200_000), "dgx-h200").summary
    assert found.makespan_ns == 1_200_000
    assert found.energy_joules == pytest.approx(700 * 0.985 * 1.2e-3)


@pytest.mark.parametrize(
    ("what", "value", "said"),
    [
        ("least_clock_mhz", 0, "0 < least <= highest"),
        ("voltage", 1.5, "dynamic.voltage: 1.5 is not in"),
        ("memory_pj", -1, "dynamic.memory_pj: -1"),
        ("product_pj", {"bf16": -2}, "product_pj.bf16: -2"),
        ("nonsense", 1, "nonsense"),
    ],
)
def test_constants_that_cannot_be_are_refused(what, value, said):
    constants = {**msgspec.to_builtins(SIMPLE), what: value}
    with pytest.raises(ConfigError, match=said.replace("(", "\\(")):
        parse_machine(
            {
                "device": {"dynamic": constants},
                "network": [{"topology": "ring", "size": 2, "bandwidth": "1 GB/s"}],
            },
            "m",
        )


@pytest.mark.parametrize(
    ("site", "said"),
    [
        ({"devices_per_server": 0}, "devices_per_server: 0 is below 1"),
        ({"devices_per_server": 8, "pue": 0.9}, "pue: 0.9 is below 1"),
        ({"devices_per_server": 8, "server_watts": -1}, "server_watts: -1"),
    ],
)
def test_sites_that_cannot_be_are_refused(site, said):
    network = [{"topology": "ring", "size": 2, "bandwidth": "1 GB/s"}]
    with pytest.raises(ConfigError, match=said):
        parse_machine({"network": network, "site": site}, "m")
