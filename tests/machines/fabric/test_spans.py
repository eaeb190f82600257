"""How a group lies on a machine: nodes, links inside them, ports out of them."""

from __future__ import annotations

import numpy as np

from chakrakit.machines.fabric import span_of
from support.networks import network


def pod():
    """Three nodes of four devices: 100 GB/s inside, 10 GB/s per rail outside."""
    return network(
        {"topology": "switch", "size": 4, "bandwidth": "100 GB/s", "reduction": True},
        {"topology": "switch", "size": 3},
    )


def test_a_group_within_a_node_has_links_and_no_ports():
    span = span_of(pod(), np.array([4, 5, 7]))
    assert (span.members, span.nodes, span.local) == (3, 1, 3)
    assert (span.link, span.port, span.leaving) == (100e9, 0, 0)
    assert span.reduces


def test_a_group_over_nodes_leaves_by_all_of_its_rails():
    span = span_of(pod(), np.arange(12))
    assert (span.members, span.nodes, span.local) == (12, 3, 4)
    assert (span.link, span.port, span.leaving) == (100e9, 10e9, 40e9)
    assert span.reduces


def test_one_device_per_node_has_nothing_inside():
    span = span_of(pod(), np.array([1, 5, 9]))
    assert (span.nodes, span.local, span.link, span.port) == (3, 1, 10e9, 10e9)


def test_switches_reduce_only_where_every_node_brings_as_many():
    span = span_of(pod(), np.array([0, 1, 4]))
    assert (span.nodes, span.local, span.reduces) == (2, 2, False)


def test_devices_that_share_a_port_have_a_share_of_it():
    """Two devices of node 0 send to the one of node 1, on its rail."""
    span = span_of(pod(), np.array([0, 1, 4]))
    assert span.port == 5e9


def test_an_exchange_over_oversubscribed_links_has_the_nodes_share_of_them():
    """Four nodes under two leaves: two thirds of what a node sends crosses a link that two nodes share.

    Its bandwidth is 2 nodes · 10 GB/s / 4 = 5 GB/s, 2.5 for each of them.
    """
    leaves = {"topology": "fat-tree", "arity": [2, 2], "bandwidth": "10 GB/s"}
    machine = network(
        {"topology": "switch", "size": 2, "bandwidth": "100 GB/s"},
        {**leaves, "oversubscription": 4},
    )
    assert span_of(machine, np.array([0, 2, 4, 6])).port == 2.5e9 * 3 / 2
    full = network({"topology": "switch", "size": 2, "bandwidth": "100 GB/s"}, leaves)
    assert span_of(full, np.array([0, 2, 4, 6])).port == 10e9
