"""Clocks that are asked for: all work or one phase, a power limit, and what is refused."""

import json

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.machines import load_machine
from chakrakit.machines.device import Clocks, Draw, activity_of, clocked, clocks_of, read_clocks
from chakrakit.trace.model import TraceBuilder
from chakrakit.trace.sets import TraceSet
from support.commands import succeeded
from support.paths import DATA

H200 = load_machine("dgx-h200")
FULL = H200.devices[0].dynamic.clock_mhz


def work(t, phase, flops=int(1e12), moved=1 << 20, after=()):
    shape = {"num_ops": flops, "tensor_size": moved, "dtype": "bf16", "op_type": "matmul"}
    return t.comp(phase, **shape, phase=phase, stream=0, deps=after)


def step():
    """Two short products, one in each direction, with 1 ms of host work between them."""
    t = TraceBuilder()
    first = work(t, "forward", flops=int(1e10))
    host = t.comp("host", is_cpu_op=True, duration_ns=1_000_000, deps=[first])
    work(t, "backward", flops=int(1e10), after=[host])
    return TraceSet.of(t)


def seconds(**options):
    return ck.simulate(step(), H200, compute="roofline", **options).makespan_ns * 1e-9


def test_a_locked_clock_slows_what_follows_it_and_leaves_the_host_its_time():
    free = seconds()
    product = (free - 1e-3) / 2
    assert seconds(clock=FULL / 2) == pytest.approx(1e-3 + 4 * product, rel=1e-6)
    assert seconds(clock={"backward": FULL / 2}) == pytest.approx(1e-3 + 3 * product, rel=1e-6)


def test_what_memory_limits_takes_as_long_until_the_chip_cannot_keep_up():
    t = TraceBuilder()
    work(t, "forward", flops=1000, moved=1 << 30)
    traces = TraceSet.of(t)
    constants = H200.devices[0].dynamic
    halfway = (constants.memory_clock_mhz + constants.memory_stop_mhz) / 2
    times = [
        ck.simulate(traces, H200, compute="roofline", clock=mhz).makespan_ns
        for mhz in (FULL, constants.memory_clock_mhz, halfway)
    ]
    assert times[1] == pytest.approx(times[0], rel=1e-6)
    assert times[2] == pytest.approx(2 * times[0], rel=1e-6)


def test_bandwidth_falls_with_the_clock_as_it_was_measured():
    """A product of one row on an H200 moves 4.41 TB/s at 1,980 MHz, 4.20 at 1,410 and 2.82 at 1,005."""
    constants = H200.devices[0].dynamic
    for mhz, measured in ((1410, 4.41 / 4.20), (1005, 4.41 / 2.82)):
        assert constants.memory_stretch(mhz) == pytest.approx(measured, rel=0.03)
    assert constants.memory_stretch(345) == pytest.approx(1980 / 345)


def test_kernels_at_locked_clocks_take_as_long_as_they_were_measured():
    """On one H200 in graphs; those that products limit ran below the highest clock when it was free."""
    device = H200.devices[0]
    off = []
    for row in map(json.loads, (DATA / "h200_clocks.jsonl").read_text().splitlines()):
        t = TraceBuilder()
        work = {"num_ops": row["flops"], "tensor_size": row["bytes"], "dtype": "bf16"}
        t.comp(row["name"], op_type="matmul" if row["flops"] else "vector", **work)
        found = activity_of(t.build(), device, device.dynamic, np.array([row["us"]["free"] * 1e-6]))
        if found.at_memory[0]:
            for mhz in (1680, 1500, 1410, 1200, 1005, 810):
                slow = Draw(constants=device.dynamic, share=mhz / FULL).stretch(found)[0]
                off.append(np.log(slow * row["us"]["free"] / row["us"][str(mhz)]))
    assert len(off) > 200
    assert np.abs(off).mean() < 0.06
    assert abs(np.mean(off)) < 0.03


def test_a_power_cap_is_kept_and_costs_time():
    t = TraceBuilder()
    work(t, "forward", flops=int(1e14))
    free, capped = (
        ck.simulate(TraceSet.of(t), H200, compute="roofline", **o).summary
        for o in ({}, {"power_cap": 300})
    )
    assert capped.makespan_ns > free.makespan_ns
    assert capped.energy_joules / (capped.makespan_ns * 1e-9) <= 300
    assert capped.clock_mhz < free.clock_mhz


def test_a_power_cap_that_no_clock_keeps_is_refused():
    t = TraceBuilder()
    work(t, "forward", flops=int(1e14), moved=1 << 36)
    with pytest.raises(
        ConfigError, match="cannot stay within 90 W: on this work it draws more at its"
    ):
        ck.simulate(TraceSet.of(t), H200, compute="roofline", power_cap=90)


def test_a_lower_clock_of_one_phase_saves_energy_of_that_phase_alone():
    by_clock = {
        name: ck.simulate(step(), H200, compute="roofline", clock=clock).summary
        for name, clock in (("full", FULL), ("half", {"backward": FULL / 2}))
    }
    assert by_clock["half"].clock_mhz == pytest.approx(FULL / 2)
    gemm = [s.energy_by_class["gemm"] for s in by_clock.values()]
    assert gemm[1] < gemm[0]


def backward_pass():
    """1 ms of the host, then a product of the forward pass and of each phase of the backward pass."""
    t = TraceBuilder()
    last = [t.comp("host", is_cpu_op=True, duration_ns=1_000_000)]
    for phase in ("forward", "recompute", "backward", "weight"):
        last = [work(t, phase, flops=int(1e10), after=last)]
    return TraceSet.of(t)


@pytest.mark.parametrize(
    ("clock", "slowed"),
    [
        ({"backward": FULL / 2}, 3),
        ({"backward": FULL / 2, "weight": FULL}, 2),
        ({"weight": FULL / 2}, 1),
        ({"": FULL / 2, "backward": FULL}, 1),
    ],
)
def test_weights_and_recomputation_have_the_clock_of_the_backward_pass(clock, slowed):
    free, by_phase = (
        ck.simulate(backward_pass(), H200, compute="roofline", **o).makespan_ns
        for o in ({}, {"clock": clock})
    )
    assert by_phase == pytest.approx(free + (free - 1e6) * slowed / 4, rel=1e-6)


def test_a_run_whose_clocks_differ_says_the_lowest_and_the_highest(tmp_path):
    ck.write(step(), tmp_path / "step")
    for clock, said in (("backward=1005", "1,005 to 1,980 MHz"), ("1005", "clock 1,005 MHz")):
        options = ("--machine", "dgx-h200:1", "--compute", "roofline", "--clock", clock)
        assert said in succeeded("simulate", tmp_path / "step", *options)
    summary = ck.simulate(step(), H200, compute="roofline", clock={"backward": 1005}).summary
    assert (summary.clock_mhz, summary.highest_clock_mhz) == (1005, FULL)


def test_a_limit_above_the_own_one_and_measured_times_are_said_to_stay():
    def notes(traces, **options):
        return " ".join(ck.simulate(traces, H200, **options).summary.notes)

    assert "own limit is 700 W" in notes(step(), compute="roofline", power_cap=800)
    assert "changes nothing" not in notes(step(), compute="roofline", power_cap=600)
    t = TraceBuilder()
    computed = work(t, "forward", flops=int(1e10))
    t.comp("measured", duration_ns=10**6, stream=0, deps=[computed])
    assert "of the devices' time was measured" in notes(TraceSet.of(t), clock=1005)
    assert "was measured" not in notes(TraceSet.of(t))


def test_a_device_at_a_lower_clock_has_lower_rates():
    device = H200.devices[0]
    half = clocked(device, 0.5)
    assert half.peak_rate("bf16") == device.peak_rate("bf16") / 2
    assert half.memory_bandwidth < device.memory_bandwidth
    assert clocked(device, 1.0) is device


def test_energy_of_the_chip_falls_with_the_square_of_the_voltage():
    draw = Draw(constants=H200.devices[0].dynamic, share=0.5)
    assert draw.voltage < 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clock": 99}, "runs at 345 to 1980 MHz"),
        ({"clock": {"forwards": 1000}}, "did you mean 'forward'"),
        ({"clock": ["fast"]}, "MHZ or PHASE=MHZ"),
        ({"clock": -1}, "more than 0"),
        ({"clock": ["1410", "1005"]}, "all work has another clock already"),
        ({"clock": ["forward=1410", "forward=1005"]}, "forward has another clock already"),
        ({"power_cap": 20}, "W idle"),
        ({"power_cap": 0}, "more than 0 watts"),
    ],
)
def test_clocks_that_a_device_cannot_have_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        seconds(**options)


def test_a_clock_needs_constants_and_computed_times():
    plain = {
        "device": {"peak": {"bf16": 1e12}, "memory_bandwidth": 1e12},
        "network": [{"topology": "switch", "size": 1, "bandwidth": 1e9}],
    }
    with pytest.raises(ConfigError, match="no power constants"):
        ck.simulate(step(), ck.machine(plain), compute="roofline", clock=1000)
    t = TraceBuilder()
    t.comp("measured", duration_ns=1000)
    with pytest.raises(ConfigError, match="were measured"):
        ck.simulate(TraceSet.of(t), H200, clock=1000)


def test_texts_and_figures_become_clocks():
    assert read_clocks(("1410",)) == {"": 1410.0}
    assert clocks_of(read_clocks(("prefill=1980", "decode=1200")), 400) == Clocks(
        {"prefill": 1980.0, "decode": 1200.0}, 400
    )
    assert not clocks_of((), None)


LOAD = "poisson{rate=20,n=40,prompt=256,output=16}"


def served(**options):
    return ck.serve("llama-3.1-8b", "dgx-h200", LOAD, compute="roofline", **options)


def test_engines_at_a_lower_clock_answer_later_and_draw_less():
    full, slow = served(), served(clock=1005)
    assert slow.tpot_ms.mean > full.tpot_ms.mean
    assert slow.joules_per_token < full.joules_per_token
    assert (full.clock_mhz, slow.clock_mhz) == (FULL, 1005)


def test_prompts_whose_times_were_measured_slow_below_the_clock_of_sustained_products_alone():
    """Those times hold what the power limit does: for long, an H200 runs products at 0.769 of its clock."""
    prompts = "poisson{rate=1,n=10,prompt=4096,output=2}"
    free, near, half = (
        ck.serve("llama-3.1-8b", "dgx-h200", prompts, **o).ttft_ms.mean
        for o in ({}, {"clock": 0.8 * FULL}, {"clock": 0.5 * FULL})
    )
    assert near == pytest.approx(free, rel=0.02)
    assert half == pytest.approx(free * 0.769 / 0.5, rel=0.1)  # the engine's own time stays


def test_only_the_pool_of_a_phase_is_slowed():
    apart = {"prefill": 1, "decode": 1}
    full, slow = served(**apart), served(**apart, clock={"decode": 1005})
    assert slow.ttft_ms.mean == pytest.approx(full.ttft_ms.mean)
    assert slow.tpot_ms.mean > full.tpot_ms.mean
    assert (slow.clock_mhz, slow.highest_clock_mhz) == (1005, FULL)
    with pytest.raises(ConfigError, match="--prefill and --decode"):
        served(clock={"decode": 1005})


def test_a_cap_lowers_the_clock_of_engines_and_one_that_never_binds_does_not():
    capped, free, above = served(power_cap=300), served(), served(power_cap=900)
    assert capped.clock_mhz < FULL == above.clock_mhz
    assert above.tpot_ms == free.tpot_ms
    assert "own limit is 700 W" in " ".join(above.notes)
    assert "own limit" not in " ".join(capped.notes)
    with pytest.raises(ConfigError, match="cannot stay within 85 W: serving this stream it draws"):
        served(power_cap=85)
    assert served(power_cap=699).tpot_ms.mean == pytest.approx(served().tpot_ms.mean, rel=0.2)
