"""What devices draw, by class of work: their limit while they work, idle power while they do not."""

import pytest

from chakrakit import TraceBuilder, TraceSet, simulate
from chakrakit.machines import parse_machine
from chakrakit.machines.device import work_model
from chakrakit.simulator.engine import SimulationOptions
from chakrakit.simulator.results.energy import Energy, energy_of, run_within_limits


def device(**more):
    network = [{"topology": "switch", "size": 1, "bandwidth": 1e9}]
    return parse_machine({"network": network, "device": more}, "one")


def drawn(machine, build):
    t = TraceBuilder()
    build(t)
    outcome, limit = run_within_limits(TraceSet([t.build()]), machine, SimulationOptions())
    return energy_of(outcome, machine, limit)


def test_a_device_draws_its_power_at_work_and_its_idle_power_otherwise():
    """3 s of a kernel at 500 W, then 1 s of the host's own at 100 W."""

    def build(t):
        kernel = t.comp("gemm", duration_ns=3 * 10**9)
        t.comp("host", is_cpu_op=True, duration_ns=10**9, deps=[kernel])

    found = drawn(device(power=500, idle_power=100), build)
    assert found.by_class["idle"] == pytest.approx(100)
    assert found.joules == pytest.approx(1600)
    assert found.clock_mhz is None


def test_kernels_that_overlap_share_the_time_of_their_device():
    """Two kernels side by side for 2 s draw no more than one would."""

    def build(t):
        for stream in (1, 2):
            t.comp("gemm", duration_ns=2 * 10**9, stream=stream)

    assert drawn(device(power=500, idle_power=100), build).joules == pytest.approx(1000)


def test_nothing_is_said_of_devices_that_do_not_say_what_they_draw():
    assert drawn(device(), lambda t: t.comp("gemm", duration_ns=10)) is None


def test_the_sum_over_classes():
    assert Energy({"gemm": 2.0, "idle": 0.5}).joules == 2.5


def waiting(seconds):
    """Products of a second in all, cut by a kernel of the host that takes so long."""
    machine = parse_machine({"base": "dgx-h100", "device": {"power": "400 W"}}, "less power")
    t = TraceBuilder()
    work = {"num_ops": 4 * 10**14, "tensor_size": 10**9}
    first = t.comp("first", **work)
    host = t.comp("host", is_cpu_op=True, duration_ns=int(seconds * 1e9), deps=[first])
    t.comp("second", **work, deps=[host])
    options = SimulationOptions(work=work_model("roofline"))
    outcome, limit = run_within_limits(TraceSet([t.build()]), machine, options)
    return energy_of(outcome, machine, limit).clock_mhz


def test_of_a_long_wait_no_more_than_a_second_raises_the_clock():
    never, half, second, minute = (waiting(s) for s in (0.001, 0.5, 1.0, 60.0))
    assert never < half < second
    assert minute == second


def locked(**clock):
    """A forward and a backward product that the power limit slows down."""
    t = TraceBuilder()
    work = {"num_ops": 4 * 10**14, "tensor_size": 10**9, "dtype": "bf16", "op_type": "matmul"}
    forward = t.comp("forward", phase="forward", **work)
    t.comp("backward", phase="backward", **work, deps=[forward])
    return simulate(TraceSet([t.build()]), "dgx-h200", clock=clock, compute="roofline").summary


def test_where_a_locked_phase_leaves_room_for_the_others_a_note_says_so():
    """The limit holds for the mean of a run, so that a lock of one phase can cost energy in another."""
    free, half = locked(), locked(forward=1000)
    both = locked(**{"": int(free.clock_mhz), "forward": 1000})
    assert half.highest_clock_mhz > free.clock_mhz + 100
    notes = [n for n in half.notes if "locked phases leave room" in n]
    assert len(notes) == 1
    assert f"MHz instead of {free.clock_mhz:,.0f}; to compare energy at the same clock" in notes[0]
    assert both.energy_joules < half.energy_joules
    assert not any("leave room" in n for summary in (free, both) for n in summary.notes)
