"""A machine: dimensions, addresses, and routes that cross them from the inside out."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.errors import ConfigError
from chakrakit.machines import load_machine
from support.networks import MACHINES, network, walk, walks


@pytest.mark.parametrize("name", MACHINES)
def test_every_route_joins_its_ends(name):
    machine = MACHINES[name]
    assert len(walks(machine)) == machine.size * (machine.size - 1)
    assert len(machine.vertex_names()) == machine.vertices


def test_devices_of_a_rail_meet_on_their_own_switch():
    machine = load_machine("dgx-h100:4")
    names = machine.vertex_names()
    assert [names[v] for v in walk(machine, 3, 11)] == ["device 3", "switch 1.3", "device 11"]
    assert [names[v] for v in walk(machine, 3, 8)] == [
        "device 3",
        "switch 0.0",
        "device 0",
        "switch 1.0",
        "device 8",
    ]


def test_a_device_has_an_address_in_every_dimension():
    machine = network({"topology": "switch", "size": 4}, {"topology": "ring", "size": 3})
    devices = np.array([0, 5, 11])
    assert machine.shape == (4, 3)
    assert machine.address(devices, 0).tolist() == [0, 1, 3]
    assert machine.address(devices, 1).tolist() == [0, 1, 2]
    assert (machine.instances(0), machine.instances(1), machine.node_size) == (3, 4, 4)
    assert machine.instance(devices, 0).tolist() == [0, 1, 2]
    assert machine.instance(devices, 1).tolist() == [0, 1, 3]  # one ring per rail


REMOTE = {"store": {"kind": "remote", "nodes": [7], "bandwidth": "4 GB/s"}}
DISK = {"disk": {"kind": "local", "bandwidth": "1 GB/s"}}


@pytest.mark.parametrize(
    ("more", "node_size"),
    [({}, 8), ({"storage": DISK}, 8), ({"nodes": 8}, 1), ({"storage": REMOTE}, 1)],
)
def test_an_only_dimension_is_one_node_unless_its_places_are_nodes(more, node_size):
    machine = network({"topology": "switch", "size": 8}, **more)
    assert machine.node_size == node_size
    joined = network({"topology": "switch", "size": 8}, {"topology": "switch", "size": 1}, nodes=1)
    assert joined.node_size == 8


def test_servers_of_one_accelerator_are_nodes():
    assert (load_machine("ethernet-100g").node_size, load_machine("ethernet-100g:4").size) == (1, 4)


def test_a_flat_dimension_is_crossed_alone():
    machine = MACHINES["flat"]
    names = machine.vertex_names()
    assert [names[v] for v in walk(machine, 1, 6)] == ["device 1", "switch 1.0", "device 6"]


def test_one_switch_can_reduce_for_the_devices_on_it():
    machine = network(
        {"topology": "switch", "size": 4, "reduction": True}, {"topology": "ring", "size": 2}
    )
    up, down = machine.reduction_links(np.array([4, 6]))
    names = machine.vertex_names()
    assert [names[v] for v in machine.links.src[up]] == ["device 4", "device 6"]
    assert {names[v] for v in machine.links.dst[up]} == {"switch 0.1"}
    assert [names[v] for v in machine.links.dst[down]] == ["device 4", "device 6"]
    assert machine.reduction_links(np.array([0, 4])) is None


def test_too_many_ranks_are_refused_with_the_size_that_would_do():
    with pytest.raises(ConfigError, match=r"has 16 devices and the workload 17 .* dgx-h100:3"):
        load_machine("dgx-h100:2").check_ranks(17)
    ring = network({"topology": "ring", "size": 4}, name="mine")
    ring.check_ranks(4)
    with pytest.raises(ConfigError, match="give its outermost dimension 9 places instead of 4"):
        ring.check_ranks(9)


def test_it_says_what_it_is_in_one_line():
    machine = network({"topology": "switch", "size": 4}, device={"name": "a"}, name="mine")
    assert repr(machine) == "Machine('mine': 4 × a; 4 (switch))"
