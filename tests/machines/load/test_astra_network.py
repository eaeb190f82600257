"""ASTRA-sim's network files as machines."""

import pytest

from chakrakit.errors import ConfigError
from chakrakit.machines import read_machine
from chakrakit.machines.load import parse_astra_network

NETWORK = {
    "topology": ["Ring", "Switch"],
    "npus_count": [4, 2],
    "bandwidth": [100.0, 50.0],
    "latency": [500.0, 1000.0],
}


def test_a_gb_is_two_to_the_thirty_and_latencies_are_nanoseconds():
    machine = parse_astra_network(NETWORK, "nets/two.yml")
    assert (machine.name, machine.shape, machine.size) == ("two.yml", (4, 2), 8)
    assert sorted(set(machine.links.bandwidth.tolist())) == [50 * 2**30, 100 * 2**30]
    assert machine.links.latency.max() == pytest.approx(1e-6)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"topology": ["Torus", "Switch"]}, "'Torus' is none of Ring, FullyConnected, Switch"),
        ({"latency": [1.0]}, "differ in length"),
        ({"npus_count": ["many", 2]}, "Expected `int`"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(change, problem):
    with pytest.raises(ConfigError, match=problem):
        parse_astra_network(NETWORK | change, "net.yml")


def test_astra_network_file():
    text = {"topology": ["Ring", "Switch"], "npus_count": [4, 2]}
    text |= {"bandwidth": [100.0, 50.0], "latency": [500.0, 1000.0]}
    machine = read_machine(text, "net.yml")
    assert machine.shape == (4, 2)
    assert machine.links.bandwidth.max() == 100 * 2**30
    assert machine.links.latency.max() == pytest.approx(1e-6)
