"""Machines of every shape, made of links of 10 GB/s and 1 µs, and the way that a route takes."""

import numpy as np

from chakrakit.machines import parse_machine

LINK = {"bandwidth": "10 GB/s", "latency": "1 us"}


def network(*levels, **more):
    return parse_machine({"network": [{**LINK, **level} for level in levels], **more}, "m")


def walk(machine, a, b):
    """The vertices a route visits; checks that links join up."""
    return _walked(machine, a, b, machine.routes(np.array([a]), np.array([b])).route(0))


def walks(machine):
    """The same from every device to every other, by pair."""
    pairs = [(a, b) for a in range(machine.size) for b in range(machine.size) if a != b]
    routes = machine.routes(*np.array(pairs).T)
    return {pair: _walked(machine, *pair, routes.route(i)) for i, pair in enumerate(pairs)}


def _walked(machine, a, b, links):
    seen = [a]
    for link in links.tolist():
        assert machine.links.src[link] == seen[-1]
        seen.append(int(machine.links.dst[link]))
    assert seen[-1] == b
    return seen


MACHINES = {
    "ring": network({"topology": "ring", "size": 7}),
    "line": network({"topology": "line", "size": 5}),
    "full": network({"topology": "full", "size": 6}),
    "switch": network({"topology": "switch", "size": 9}),
    "torus": network({"topology": "torus", "dims": [4, 3, 5]}),
    "mesh": network({"topology": "mesh", "dims": [4, 3]}),
    "fat tree": network({"topology": "fat-tree", "arity": [4, 3, 2], "oversubscription": 2}),
    "dragonfly": network({"topology": "dragonfly", "dims": [5, 4, 2]}),
    "rails": network({"topology": "switch", "size": 4}, {"topology": "fat-tree", "arity": [3, 2]}),
    "flat": network(
        {"topology": "ring", "size": 4}, {"topology": "switch", "size": 3, "joins": "flat"}
    ),
    "gateways": network(
        {"topology": "full", "size": 4}, {"topology": "ring", "size": 5, "joins": "gateways"}
    ),
    "three": network(
        {"topology": "full", "size": 2},
        {"topology": "ring", "size": 3},
        {"topology": "switch", "size": 2, "joins": "flat"},
    ),
}
