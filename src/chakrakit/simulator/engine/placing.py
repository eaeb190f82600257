"""Where ranks go by themselves: one after another, but never so that groups straddle racks of an odd size.

Parallel degrees are powers of two and racks need not be: a rack of 72 holds one group of 64. Packed one
after another, every rack after the first would cut a group, and its exchange would cross the network
between racks. Schedulers therefore leave places free; so do we, where the machine has enough of them.
"""

from __future__ import annotations

import numpy as np

from chakrakit.arrays import I64
from chakrakit.machines.fabric import Machine

LEAST_RACK = 16
"""Devices from which a node counts as a rack; smaller nodes of odd sizes are built for jobs of their size."""


def per_rack(world: int, machine: Machine) -> int:
    """How many ranks a node takes: a power of two where its size is none and there are nodes enough."""
    size = machine.node_size
    whole = 1 << (size.bit_length() - 1)
    if world <= size or whole == size or size < LEAST_RACK or machine.stores:
        return size
    return whole if -(-world // whole) <= machine.size // size else size


def whole_groups(ranks: I64, world: int, machine: Machine) -> I64:
    """The device of each rank where nobody says."""
    each = per_rack(world, machine)
    if each == machine.node_size:
        return ranks
    return np.asarray(ranks // each * machine.node_size + ranks % each, np.int64)


def straddling(members: I64, machine: Machine) -> bool:
    """Whether a group that would fit into one node lies on several."""
    if machine.node_size < LEAST_RACK or machine.node_size & (machine.node_size - 1) == 0:
        return False  # groups of a power of two lie whole on nodes of a power of two
    return len(members) <= machine.node_size and len(np.unique(members // machine.node_size)) > 1
