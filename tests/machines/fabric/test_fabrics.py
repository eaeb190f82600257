"""Regular shapes: routes by arithmetic join their ends and are as short as those by search."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.errors import ConfigError
from chakrakit.machines import parse_machine
from chakrakit.machines.description import tree_links
from chakrakit.machines.fabric import Ring, Routes, Tree, lone_port
from support.networks import LINK, MACHINES, network, walk, walks


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ring", "line", "full", "switch", "torus", "mesh", "fat tree"])
def test_routes_by_arithmetic_are_as_short_as_those_by_search(name):
    machine = MACHINES[name]
    names = machine.vertex_names()
    links = [
        {"ends": [names[a], names[b]], **LINK, "one_way": True}
        for a, b in zip(machine.links.src, machine.links.dst, strict=True)
    ]
    searched = parse_machine({"graph": {"devices": names[: machine.size], "links": links}}, "g")
    found, shortest = walks(machine), walks(searched)
    assert {pair: len(way) for pair, way in found.items()} == {
        pair: len(way) for pair, way in shortest.items()
    }


def test_hashing_spreads_over_equal_ways():
    machine = network({"topology": "fat-tree", "arity": [8, 2], "uplinks": [8]})
    ways = {tuple(walk(machine, a, b))[2] for a in range(8) for b in range(8, 16)}
    assert len(ways) == 8


def test_oversubscription_narrows_what_leads_up():
    machine = network({"topology": "fat-tree", "arity": [4, 2], "oversubscription": 4})
    up = machine.links.bandwidth[(machine.links.src >= 8)].sum()
    assert up == pytest.approx(8 * 10e9 + 2 * 2 * 10e9)


def links(routes: Routes) -> list[list[int]]:
    return [routes.route(i).tolist() for i in range(len(routes.offsets) - 1)]


def test_a_circle_goes_the_shorter_way_and_on_ties_half_of_the_ports_each():
    ring = network({"topology": "ring", "size": 4})
    assert links(ring.routes(np.array([0, 0, 0, 3]), np.array([1, 2, 3, 1]))) == [
        [0],
        [0, 1],
        [7],  # the cable from the last to the first, backwards
        [6, 5],
    ]
    line = network({"topology": "line", "size": 4})
    assert len(line.links) == 6
    assert links(line.routes(np.array([0, 3]), np.array([3, 1]))) == [[0, 1, 2], [5, 4]]


def test_a_circle_of_two_is_one_cable():
    pair = Ring.make(2, 1.0, 0.0)
    assert (pair.shape, len(pair.links)) == ("line", 2)


def test_every_pair_has_a_link_of_its_own():
    full = network({"topology": "full", "size": 3})
    assert links(full.routes(np.array([0, 2, 1]), np.array([2, 0, 2]))) == [[1], [4], [3]]
    assert list(zip(full.links.src.tolist(), full.links.dst.tolist(), strict=True)) == [
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 2),
        (2, 0),
        (2, 1),
    ]


def test_ways_up_are_given_for_each_level_below_the_top():
    with pytest.raises(ConfigError, match="uplinks: give 1 numbers, one per level below the top"):
        Tree.make([4, 2], 1.0, 0.0, uplinks=[2, 2])
    tree = Tree.make([4, 2], 8.0, 0.0, uplinks=[2])
    assert (tree.shape, tree.switches) == ("fat-tree", (2, 2))
    assert tree.links.bandwidth.max() == 16.0  # 4 × 8 shared by two ways


def test_a_lone_port_has_no_links():
    assert (lone_port().ports, len(lone_port().links)) == (1, 0)


@pytest.mark.parametrize(
    ("arity", "oversubscription", "uplinks"),
    [
        ([4], 1.0, []),
        ([4, 3], 1.0, []),
        ([4, 3], 3.0, []),
        ([5, 2, 3], 2.0, []),
        ([2, 2, 2, 2], 1e9, []),
        ([4, 2, 2], 1.0, [3, 1]),
    ],
)
def test_the_links_of_a_tree_are_counted_before_it_is_made(arity, oversubscription, uplinks):
    made = Tree.make(arity, 1e9, 1e-6, oversubscription, uplinks or None)
    assert tree_links(arity, oversubscription, uplinks) == len(made.links)
