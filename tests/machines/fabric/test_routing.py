"""How evenly routes spread over the links of a tree."""

import numpy as np
import pytest

from chakrakit.machines import parse_machine


def loads(arity, routing):
    """Bytes over every link between switches when every device sends one to every other."""
    n = int(np.prod(arity))
    machine = parse_machine(
        {
            "network": [
                {
                    "topology": "fat-tree",
                    "arity": list(arity),
                    "bandwidth": "100 Gb/s",
                    "routing": routing,
                }
            ]
        },
        "tree",
    )
    src, dst = np.repeat(np.arange(n), n), np.tile(np.arange(n), n)
    routes = machine.routes(src[src != dst], dst[src != dst])
    load = np.bincount(routes.links, minlength=len(machine.links))
    between = (machine.links.src >= n) & (machine.links.dst >= n)
    return load[between], machine.links.dst[between] > machine.links.src[between]


@pytest.mark.parametrize("arity", [(4, 4), (4, 4, 4), (2, 4, 3), (2, 2, 2, 2)])
def test_modulo_routing_uses_every_link_of_a_level_equally(arity):
    load, up = loads(arity, "modulo")
    assert load.min() > 0
    for way in (up, ~up):
        # Links of one level carry the same; there are as many values as levels between switches.
        assert len(np.unique(load[way])) <= len(arity) - 1


def test_hashing_spreads_less_evenly_than_modulo():
    hashed, _ = loads((4, 4, 4), "hash")
    even, _ = loads((4, 4, 4), "modulo")
    assert hashed.sum() == even.sum()
    assert hashed.max() > even.max()
    assert even.max() / even.mean() < 1.4
