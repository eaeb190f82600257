"""What a library's collectives put on links: never more than the links carry in the library's own time."""

from __future__ import annotations

import numpy as np
import pytest

import chakrakit as ck
from chakrakit import CollectiveType
from chakrakit.machines.load import preset_names
from chakrakit.simulator.collectives import (
    ALGORITHMS,
    data_bytes,
    library_call,
    library_steps,
    shapes,
)
from chakrakit.simulator.engine import TransferPlans, one_collective, run

PRESETS = [name for name in preset_names() if ck.load_machine(name).library is not None]
KINDS = {kind: names for kind, names in ALGORITHMS.items() if kind != "barrier"}
SIZES = (1e3, 1e5, 1e7, 1e9)


def _groups(local, nodes):
    """Groups that lie on the nodes in different ways: evenly, unevenly, on some devices alone."""
    devices = np.arange(local * nodes)
    groups = [
        devices,
        devices[:-1],
        devices[::local],
        devices[devices % local < max(1, local // 2)],
        devices[: local // 2 + 1 + local * (nodes - 1)][::-1],
    ]
    return [g for g in groups if 2 <= len(g) <= 64]


def _calls(machine, group):
    shape = shapes(machine, group[None])[0]
    for kind, names in KINDS.items():
        for size in SIZES:
            total = data_bytes(kind, size, len(group))
            each = total / len(group) if kind == "all-to-all" else total
            for name in ("", *names):
                if name != "in-switch" or shape.reduces:
                    call = library_call(machine.library, kind, each, shape.span, name)
                    if call is not None:
                        yield kind, total, call


@pytest.mark.parametrize("preset", PRESETS)
def test_no_transfer_is_faster_than_its_links(preset):
    """Bytes as links feel them are at least the payload: the library reaches a share of their bandwidth."""
    local = ck.load_machine(preset).dimensions[0].size
    tried = 0
    for nodes in (1, 2, 3, 4):
        machine = ck.load_machine(f"{preset}:{nodes}")
        for group in _groups(local, nodes):
            for kind, total, call in _calls(machine, group):
                book = TransferPlans(machine)
                moves = library_steps(call, kind, len(group), 0, machine.instance(group, 0))
                book.add(moves, group[None], total, call.cost)
                plans, _, _ = book.arrays()
                assert (plans["bytes"] >= plans["payload"] * (1 - 1e-9)).all(), (nodes, kind, call)
                tried += 1
    assert tried > 100


@pytest.mark.parametrize("nodes", [1, 2, 3])
@pytest.mark.parametrize(
    "preset", ["dgx-a100", "dgx-h100", "dgx-h800", "l40s-pcie", "rtx-pro-6000"]
)
def test_alone_a_collective_takes_what_the_library_takes(preset, nodes):
    machine = ck.load_machine(f"{preset}:{nodes}")
    group = np.arange(machine.size)
    shape = shapes(machine, group[None])[0]
    for kind in (
        CollectiveType.ALL_REDUCE,
        CollectiveType.ALL_GATHER,
        CollectiveType.BROADCAST,
        CollectiveType.ALL_TO_ALL,
    ):
        name = kind.name.lower().replace("_", "-")
        for size in (30_000, 3_000_000, 300_000_000):
            total = data_bytes(name, size, machine.size)
            each = total / machine.size if name == "all-to-all" else total
            call = library_call(machine.library, name, each, shape.span)
            done = run(one_collective(kind, size, tuple(group.tolist())), machine)
            assert done.makespan_ps == pytest.approx(call.cost.seconds * 1e12, rel=1e-5)
