"""Which jobs can meet on a link, given the devices each runs on."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from chakrakit.arrays import Mask
from chakrakit.machines.fabric import Machine
from chakrakit.simulator.jobs.placement import Devices

MOST_PAIRS = 4_000_000
"""Pairs of devices of a job whose routes are looked at; a larger job may use any link."""


def meeting(
    machine: Machine, places: Sequence[Devices], stores: Sequence[Collection[str]]
) -> list[tuple[int, ...]]:
    """The jobs in parts, ascending: jobs of different parts have no link on any of their routes in common.

    `stores` are the names of those that each job uses.
    """
    parts: list[tuple[tuple[int, ...], Mask]] = []
    for number, devices in enumerate(places):
        links = _reach(machine, devices) | _to_stores(machine, devices, stores[number])
        mine: tuple[int, ...] = (number,)
        apart = []
        for others, theirs in parts:
            if (links & theirs).any():
                mine, links = (*others, *mine), links | theirs
            else:
                apart.append((others, theirs))
        parts = [*apart, (mine, links)]
    return sorted(tuple(sorted(numbers)) for numbers, _ in parts)


def _reach(machine: Machine, devices: Devices) -> Mask:
    """Links on any route between a job's devices."""
    if len(devices) ** 2 > MOST_PAIRS:
        return np.ones(len(machine.links), np.bool_)
    mine = np.array(devices, np.int64)
    src, dst = np.repeat(mine, len(mine)), np.tile(mine, len(mine))
    out = np.zeros(len(machine.links), np.bool_)
    out[machine.routes(src, dst).links] = True
    return out


def _to_stores(machine: Machine, devices: Devices, names: Collection[str]) -> Mask:
    """Links on any route between a job's devices and the stores it uses."""
    out = np.zeros(len(machine.links), np.bool_)
    mine = np.array(devices, np.int64)
    for number, store in enumerate(machine.stores):
        if store.name in names:
            for writes in (0, 1):
                which, way = np.full(len(mine), number), np.full(len(mine), writes)
                out[machine.store_routes(which, mine, way).links] = True
    return out
