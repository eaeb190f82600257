"""How a group lies on a machine: worst ways, fans, and the grid it fills."""

import numpy as np
import pytest

import chakrakit as ck
from chakrakit.machines import parse_machine
from chakrakit.simulator.collectives import grid_of, shapes
from chakrakit.simulator.collectives.group_shape import GroupAxis, Way
from support.simulated import GB, machine_of


def two_by_three():
    """Pairs at 10 GB/s and 1 µs, in a ring of three at 1 GB/s and 5 µs."""
    levels = [(2, 10 * GB, 1e-6), (3, 1 * GB, 5e-6)]
    network = [{"topology": "ring", "size": n, "bandwidth": b, "latency": t} for n, b, t in levels]
    return parse_machine({"network": network}, "grid")


@pytest.mark.parametrize(
    ("topology", "ring", "far", "fan"),
    [
        ("switch", Way(2e-6, 10 * GB), Way(2e-6, 10 * GB), 1),  # up and down: two links
        ("full", Way(1e-6, 10 * GB), Way(1e-6, 10 * GB), 3),
        ("ring", Way(1e-6, 10 * GB), Way(2e-6, 10 * GB), 2),  # half way round, two go each way
    ],
)
def test_the_worst_ways_of_four_devices_at_10_gigabytes_per_second(topology, ring, far, fan):
    (shape,) = shapes(machine_of(topology, 4), np.array([[0, 1, 2, 3]]))
    assert (shape.n, shape.ring, shape.far, shape.fan) == (4, ring, far, fan)
    assert shape.axes == (GroupAxis(4, ring, topology),)
    assert not shape.reduces
    assert shape.span is None


def test_the_axes_of_a_group_that_fills_a_grid():
    (shape,) = shapes(two_by_three(), np.arange(6)[None, :])
    assert shape.axes == (
        GroupAxis(2, Way(1e-6, 10 * GB), "line"),
        GroupAxis(3, Way(5e-6, 1 * GB), "ring"),
    )
    assert shape.ring == Way(6e-6, 1 * GB)  # from the end of one pair to the beginning of the next


def test_groups_are_looked_at_together_and_keep_their_order():
    near, far = shapes(two_by_three(), np.array([[0, 1], [0, 2]]))
    assert near.ring == Way(1e-6, 10 * GB)
    assert far.ring == Way(5e-6, 1 * GB)


@pytest.mark.parametrize(
    ("members", "grid"),
    [
        ([0, 1, 2, 3, 4, 5], [[0, 2, 4], [1, 3, 5]]),
        ([4, 2, 0], [2, 1, 0]),
        ([3], [0]),
        ([0, 1, 2], None),
    ],
)
def test_positions_in_a_group_by_place(members, grid):
    found = grid_of(two_by_three(), np.array(members))
    assert (found if found is None else found.tolist()) == grid


def test_a_library_sees_nodes_and_ports():
    """Two nodes of eight, each device with a port of 50 GB/s to the other node."""
    (shape,) = shapes(ck.load_machine("dgx-h100:2"), np.arange(16)[None, :])
    assert shape.span is not None
    assert (shape.span.nodes, shape.span.local, shape.span.port) == (2, 8, 50 * GB)
    assert [axis.size for axis in shape.axes] == [8, 2]
