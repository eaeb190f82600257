"""What stands around the devices: servers, the building, and its electricity."""

import pytest

from chakrakit.errors import ConfigError
from chakrakit.machines.fabric import Site, check_site


@pytest.mark.parametrize("devices", [1, 4, 8, 9])
def test_devices_answer_for_their_share_of_servers(devices):
    """100 J, 10 % more by conversion, an eighth of 5 W for 3 s for each device, times 1.5."""
    site = Site(devices_per_server=8, server_watts=5, server_share=0.1, pue=1.5)
    expected = 1.5 * (110 + devices / 8 * 15)
    assert site.facility_joules(100, devices, 3) == pytest.approx(expected)


def test_carbon_is_by_the_kilowatt_hour():
    site = Site(devices_per_server=1, carbon_kg_per_kwh=0.4)
    assert site.carbon_kg(2 * 3.6e6) == pytest.approx(0.8)
    assert Site(devices_per_server=1).carbon_kg(1e9) is None


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"devices_per_server": 0}, r"site\.devices_per_server: 0 is below 1"),
        ({"pue": 0.9}, r"site\.pue: 0\.9 is below 1"),
        ({"pue": float("nan")}, r"site\.pue"),
        ({"server_watts": -1.0}, r"site\.server_watts"),
        ({"carbon_kg_per_kwh": float("inf")}, r"site\.carbon_kg_per_kwh"),
    ],
)
def test_numbers_that_cannot_be_are_refused(fields, problem):
    with pytest.raises(ConfigError, match=problem):
        check_site(Site(**{"devices_per_server": 8} | fields), "site")
