"""A fabric of any shape: shortest paths, and an error where there is none."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from chakrakit.errors import ConfigError
from chakrakit.machines import parse_machine
from chakrakit.machines.fabric import AnyGraph, Links, Machine
from support.networks import LINK


def test_parts_that_are_not_joined_are_refused():
    machine = parse_machine(
        {"graph": {"devices": ["a", "b", "c"], "links": [{"ends": ["a", "b"], **LINK}]}}, "m"
    )
    with pytest.raises(ConfigError, match="no way from a to c"):
        machine.routes(np.array([0]), np.array([2]))


def graph(devices: list[str], *ends: tuple[str, str]) -> Machine:
    """Links one way each."""
    links = [{"ends": list(pair), **LINK, "one_way": True} for pair in ends]
    return parse_machine({"graph": {"devices": devices, "links": links}}, "m")


def square(*more: tuple[str, str]) -> Machine:
    """a and d are two hops apart, by way of b or of c."""
    return graph(list("abcd"), *(("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")), *more)


def test_the_shortest_way_is_taken():
    routes = square(("a", "d")).routes(np.array([0]), np.array([3]))
    assert routes.route(0).tolist() == [4]


def test_equal_ways_are_shared_by_the_pairs_and_each_pair_keeps_its_own():
    left, right, between = [f"l{i}" for i in range(8)], [f"r{i}" for i in range(8)], ("x", "y")
    ends = [(a, s) for a in left for s in between] + [(s, b) for s in between for b in right]
    machine = graph(left + right, *ends)
    a, b = np.repeat(np.arange(8), 8), np.tile(np.arange(8, 16), 8)
    routes, again = machine.routes(a, b), machine.routes(a, b)
    assert set(machine.links.dst[routes.links[routes.offsets[:-1]]].tolist()) == {16, 17}
    assert routes.links.tolist() == again.links.tolist()


def test_of_equally_short_ways_those_count_whose_narrowest_link_is_the_widest():
    rates = {"nvswitch": 300e9, "tor": 50e9}
    ends = [(f"g{i}", switch) for i in range(8) for switch in rates]
    links = [{"ends": list(pair), "bandwidth": rates[pair[1]], "latency": 0} for pair in ends]
    machine = parse_machine(
        {"graph": {"devices": [f"g{i}" for i in range(8)], "links": links}}, "m"
    )
    a, b = (x.ravel() for x in np.nonzero(~np.eye(8, dtype=bool)))
    assert machine.links.bandwidth[machine.routes(a, b).links].min() == 300e9


def test_ways_that_are_as_wide_as_what_lies_before_them_are_equals():
    wide = {("a", "s"): 50e9, ("s", "x"): 100e9, ("s", "y"): 200e9}
    wide |= {(m, d): 400e9 for m in "xy" for d in "bcdefghi"}
    links = [{"ends": list(e), "bandwidth": w, "latency": 0} for e, w in wide.items()]
    machine = parse_machine({"graph": {"devices": list("abcdefghi"), "links": links}}, "m")
    routes = machine.routes(np.zeros(8, np.int64), np.arange(1, 9))
    assert set(machine.links.bandwidth[routes.links].tolist()) == {50e9, 100e9, 200e9, 400e9}


def test_links_go_one_way():
    with pytest.raises(ConfigError, match="no way from d to a; add links"):
        square().routes(np.array([3]), np.array([0]))


def test_vertices_without_names_have_numbers():
    assert AnyGraph(1, 1, Links.of([])).name_of(0) == "vertex 0"


def test_a_machine_that_knows_its_ways_goes_to_other_processes():
    machine = square()
    before = machine.routes(np.array([0]), np.array([3])).links.tolist()
    other = pickle.loads(pickle.dumps(machine))
    assert other.routes(np.array([0]), np.array([3])).links.tolist() == before
