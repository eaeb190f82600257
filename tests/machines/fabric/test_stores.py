"""Stores: which server each node uses, and the links between them."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.machines.fabric import Store
from support.networks import network

NODES = np.arange(4)


@pytest.mark.parametrize(
    ("store", "servers", "homes"),
    [
        (
            Store(name="disk", kind="local", bandwidth=1, read_bandwidth=1),
            [0, 1, 2, 3],
            [0, 1, 2, 3],
        ),
        (
            Store(name="next", kind="peer", bandwidth=1, read_bandwidth=1, distance=1),
            [1, 2, 3, 0],
            [0, 1, 2, 3],
        ),
        (
            Store(name="before", kind="peer", bandwidth=1, read_bandwidth=1, distance=-1),
            [3, 0, 1, 2],
            [0, 1, 2, 3],
        ),
        (
            Store(name="servers", kind="remote", bandwidth=1, read_bandwidth=1, at=(2, 3)),
            [0, 1, 0, 1],
            [2, 3],
        ),
    ],
)
def test_each_node_has_its_server(store: Store, servers: list[int], homes: list[int]) -> None:
    assert store.server(NODES, 4).tolist() == servers
    assert store.homes(4).tolist() == homes


def test_a_server_has_a_link_for_writes_and_one_for_reads() -> None:
    links = Store(
        name="servers", kind="remote", bandwidth=5.0, read_bandwidth=7.0, at=(2, 3)
    ).links(4, 8, first_vertex=100)
    assert (links.src.tolist(), links.dst.tolist()) == ([16, 100, 24, 101], [100, 16, 101, 24])
    assert links.bandwidth.tolist() == [5, 7, 5, 7]


def test_what_is_written_crosses_the_network_to_the_server_and_back_when_read() -> None:
    machine = network(
        {"topology": "switch", "size": 2},
        {"topology": "switch", "size": 3},
        storage={"s": {"kind": "remote", "bandwidth": "5 GB/s", "nodes": [2]}},
    )
    assert machine.free_devices.tolist() == [0, 1, 2, 3]
    names = machine.vertex_names()
    for writes, ways in (
        (1, [["device 1", "switch 1.1"], ["switch 1.1", "device 5"], ["device 4", "s 0"]]),
        (0, [["s 0", "device 4"], ["device 5", "switch 1.1"], ["switch 1.1", "device 1"]]),
    ):
        route = machine.store_routes(np.array([0]), np.array([1]), np.array([writes])).route(0)
        ends = zip(machine.links.src[route], machine.links.dst[route], strict=True)
        assert [[names[a], names[b]] for a, b in ends] == ways


def test_local_stores_are_reached_over_no_network() -> None:
    machine = network(
        {"topology": "switch", "size": 2},
        {"topology": "switch", "size": 3},
        storage={"disk": {"kind": "local", "bandwidth": "5 GB/s"}},
    )
    route = machine.store_routes(np.array([0]), np.array([3]), np.array([1])).route(0)
    assert len(route) == 1
    assert machine.links.bandwidth[route].tolist() == [5e9]
    assert machine.servers(0, np.array([0, 3, 5])).tolist() == [0, 1, 2]
