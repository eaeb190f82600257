"""A fabric of any shape: shortest paths, and an error where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from chakrakit.errors import ConfigError
from chakrakit.machines import parse_machine
from chakrakit.machines.fabric import AnyGraph, Links
from support.networks import LINK


def test_parts_that_are_not_joined_are_refused():
    machine = parse_machine(
        {"graph": {"devices": ["a", "b", "c"], "links": [{"ends": ["a", "b"], **LINK}]}}, "m"
    )
    with pytest.raises(ConfigError, match="no way from a to c"):
        machine.routes(np.array([0]), np.array([2]))


def square(*more: tuple[int, int]) -> AnyGraph:
    """0 and 3 are two hops apart, by way of 1 or of 2."""
    rows = [(a, b, 1.0, 0.0) for a, b in ((0, 1), (0, 2), (1, 3), (2, 3), *more)]
    return AnyGraph(4, 4, Links.of(rows))


def test_the_shortest_way_is_taken():
    assert square((0, 3)).routes(np.array([0]), np.array([3])).route(0).tolist() == [4]


def test_equal_ways_are_shared_by_the_pairs_and_each_pair_keeps_its_own():
    rows = [(a, b, 1.0, 0.0) for a in range(8) for b in (16, 17)]
    rows += [(a, b, 1.0, 0.0) for a in (16, 17) for b in range(8, 16)]
    graph = AnyGraph(16, 18, Links.of(rows))
    a, b = np.repeat(np.arange(8), 8), np.tile(np.arange(8, 16), 8)
    routes, again = graph.routes(a, b), graph.routes(a, b)
    assert set(graph.links.dst[routes.links[routes.offsets[:-1]]].tolist()) == {16, 17}
    assert routes.links.tolist() == again.links.tolist()


def test_links_go_one_way_and_vertices_without_names_have_numbers():
    with pytest.raises(ConfigError, match="no way from vertex 3 to vertex 0; add links"):
        square().routes(np.array([3]), np.array([0]))
