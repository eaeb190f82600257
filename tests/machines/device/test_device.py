"""A device from its description: numbers in base units, and those that cannot be refused by field."""

import pytest

from chakrakit.errors import ConfigError
from chakrakit.machines.device import DeviceText, read_device


def device(**fields):
    return read_device(DeviceText(**fields), "device")


def test_quantities_become_base_units():
    found = device(
        peak={"bf16": "989 TFLOP/s"}, memory="80 GiB", memory_bandwidth="3.35 TB/s", power="700 W"
    )
    assert found.peak["bf16"] == 989e12
    assert (found.memory, found.memory_bandwidth, found.power) == (80 * 2**30, 3.35e12, 700.0)


def test_the_rate_of_a_type_is_found_under_any_of_its_names():
    found = device(peak={"bf16": 100.0, "fp8": 200.0})
    assert found.peak_rate("c10::BFloat16") == 100.0
    assert found.peak_rate("float8_e4m3fn") == 200.0


def test_a_file_may_spell_types_as_it_likes_but_each_once():
    found = device(peak={"bfloat16": 100.0, "Half": 90.0}, achieved={"bf16": 0.5})
    assert found.peak == {"bf16": 100.0, "fp16": 90.0}
    assert found.achieved == {"bf16": 0.5}
    with pytest.raises(
        ConfigError, match=r"device\.peak: bf16, bfloat16 contain one .* type twice"
    ):
        device(peak={"bf16": 100.0, "bfloat16": 90.0})


def test_formats_with_scales_run_at_the_rate_of_their_elements_unless_they_have_their_own():
    found = device(peak={"bf16": 1.0, "fp8": 2.0, "fp4": 4.0, "nvfp4": 6.0})
    rates = [found.peak_rate(name) for name in ("mxfp8", "mxfp4", "nvfp4", "f8e4m3fn")]
    assert rates == [2.0, 4.0, 6.0, 2.0]


def test_a_type_the_device_does_not_name_runs_at_its_usual_rate():
    assert device(peak={"fp16": 7.0, "fp32": 3.0}).peak_rate("int32") == 7.0
    assert device(peak={"int8": 5.0}).peak_rate("bf16") == 5.0
    assert device().peak_rate("bf16") == 0.0


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"compute_efficiency": 0.0}, r"device\.compute_efficiency: 0\.0 is not in \(0, 1\]"),
        ({"memory_efficiency": 1.5}, r"device\.memory_efficiency"),
        ({"price_per_hour": -1.0}, r"device\.price_per_hour: -1\.0 is not 0 or more"),
        ({"comm_slowdown": float("nan")}, r"device\.comm_slowdown"),
        ({"peak": {"bf16": 0}}, r"device\.peak\.bf16"),
        ({"memory": "80 apples"}, r"device\.memory"),
    ],
)
def test_a_number_that_cannot_be_is_refused_by_its_field(fields, problem):
    with pytest.raises(ConfigError, match=problem):
        device(**fields)
