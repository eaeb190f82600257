"""What a search makes small, and what a plan cannot come below."""

from types import SimpleNamespace

import pytest

import chakrakit as ck
from chakrakit.errors import ConfigError
from chakrakit.exploration.search.searcher import objective_of

HOUR_PS = 3600 * 10**12


def summary(seconds, joules=None):
    return SimpleNamespace(makespan_ns=seconds * 1e9, energy_joules=joules)


def test_a_step_is_its_seconds():
    step = objective_of("step", ck.load_machine("dgx-h100:1"), None)
    assert step.of(8, summary(2.0)) == 2.0
    assert step.least(8, 2e12, 1e12) == 2.0


def test_a_price_is_by_the_device_and_hour():
    price = objective_of("price", ck.load_machine("dgx-h100:1"), 3.0)
    assert price.of(8, summary(3600.0)) == pytest.approx(24.0)
    assert price.least(8, HOUR_PS, 0) == pytest.approx(24.0)


def test_energy_is_what_the_simulation_says():
    energy = objective_of("energy", ck.load_machine("dgx-h100:1"), None)
    assert energy.of(8, summary(1.0, joules=1234.5)) == 1234.5


def test_a_device_of_which_little_is_known_draws_its_power_or_idles(tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text(
        "device: {peak: {bf16: 1 TFLOP/s}, memory_bandwidth: 1 TB/s, power: 100 W, idle_power: 10 W}\n"
        "network: [{topology: switch, size: 2, bandwidth: 1 GB/s}]\n"
    )
    energy = objective_of("energy", ck.load_machine(str(path)), None)
    # Two devices for 3 s, 4 s of the 6 computed.
    assert energy.least(2, 3e12, 4e12) == pytest.approx(4 * 100 + 2 * 10)


def test_a_device_with_clocks_draws_at_least_what_they_draw_at_their_lowest():
    machine = ck.load_machine("dgx-h200:1")
    device = machine.device(0)
    assert device.dynamic is not None
    energy = objective_of("energy", machine, None)
    assert device.idle_power < energy.idle_watts == energy.busy_watts < device.power


@pytest.mark.parametrize(
    ("name", "problem"),
    [("energy", "does not say what its devices draw"), ("price", "give --price-per-hour")],
)
def test_a_machine_that_does_not_say_is_refused(tmp_path, name, problem):
    path = tmp_path / "m.yaml"
    path.write_text(
        "device: {peak: {bf16: 1 TFLOP/s}, memory_bandwidth: 1 TB/s}\n"
        "network: [{topology: switch, size: 2, bandwidth: 1 GB/s}]\n"
    )
    with pytest.raises(ConfigError, match=problem):
        objective_of(name, ck.load_machine(str(path)), None)
