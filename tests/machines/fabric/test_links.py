"""Links and routes as arrays."""

import numpy as np

from chakrakit.machines.fabric import Links, Routes
from chakrakit.machines.fabric.links import RouteParts
from support.networks import network

LINKS = Links.of([(0, 1, 10.0, 1e-6), (1, 2, 5.0, 2e-6), (2, 0, 8.0, 0.0)])


def test_a_route_is_as_wide_as_its_narrowest_link_and_as_long_as_all():
    """Pairs 0→2 over both links, 1→1 over none, 2→0 over one."""
    routes = Routes(np.array([0, 2, 2, 3]), np.array([0, 1, 2]))
    assert routes.bandwidth(LINKS).tolist() == [5.0, np.inf, 8.0]
    assert routes.latency(LINKS).tolist() == [3e-6, 0.0, 0.0]
    assert routes.route(0).tolist() == [0, 1]


def test_links_of_several_parts_follow_each_other():
    both = Links.concat([LINKS, Links.of([(7, 8, 1.0, 0.0)])])
    assert both.src.tolist() == [0, 1, 2, 7]
    assert len(Links.concat([])) == len(Links.of([])) == 0


def test_hops_come_in_the_order_in_which_they_were_added():
    parts = RouteParts(3)
    parts.add(np.array([0, 2]), np.array([10, 30]))
    parts.add_routes(np.array([2, 0]), Routes(np.array([0, 2, 2]), np.array([31, 32])))
    parts.add(np.array([0]), np.array([11]))
    routes = parts.build()
    assert [routes.route(i).tolist() for i in range(3)] == [[10, 11], [], [30, 31, 32]]
    assert len(RouteParts(2).build().links) == 0


def test_the_hash_is_the_same_on_every_machine():
    """Computed by hand with splitmix64's constants: the way up that the first switch of a tree takes."""
    tree = network({"topology": "fat-tree", "arity": [2, 3], "uplinks": [5]})
    for a, b in [(0, 2), (1, 5), (4, 3)]:
        up = tree.routes(np.array([a]), np.array([b])).route(0)[1]
        signed = (_by_hand(a, b, 0) ^ 1 << 63) - (1 << 63)
        assert up == 2 * tree.size + a // 2 * 5 + signed % 5


def _by_hand(*parts):
    state, mask = 0x9E3779B97F4A7C15, 2**64 - 1
    for part in parts:
        state ^= part
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & mask
        state = (state ^ state >> 27) * 0x94D049BB133111EB & mask
        state ^= state >> 31
    return state
