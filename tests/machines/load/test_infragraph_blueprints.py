"""Every blueprint of the official package, as its files hold it."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from chakrakit.machines import read_machine

pytest.importorskip("infragraph", reason="pip install infragraph==3.1.0")


def made(path: str, *arguments: Any, **options: Any) -> Any:
    """An object of a blueprint's class, `devices.nvidia.dgx.NvidiaDGX`."""
    module, _, name = path.rpartition(".")
    blueprint = getattr(importlib.import_module(f"infragraph.blueprints.{module}"), name)
    return blueprint(*arguments, **options)


DGX, SERVER = "devices.nvidia.dgx.NvidiaDGX", "devices.generic.server.Server"
DELL = "devices.dell.xe9680.Dellxe9680"


def switch(ports: int) -> Any:
    return made("devices.generic.generic_switch.Switch", port_count=ports)


DEVICES = [
    *(
        (8 if p != "dgx2" else 16, DGX, {"profile": p})
        for p in ("dgx1", "dgx2", "dgx_a100", "dgx_h100")
    ),
    (4, DGX, {"profile": "dgx_gb200"}),
    (8, "devices.amd.mi300x.MI300X", {}),
    *((8, DELL, {"xpu_type": x}) for x in ("h100", "h200", "h20", "a100", "mi300x", "gaudi3")),
    *((8, "devices.dell.xe9680L.Dellxe9680L", {"xpu_type": x}) for x in ("h200", "b200")),
    (8, "devices.dell.xe9685L.Dellxe9685L", {}),
    (4, SERVER, {"npu_factor": 2}),
    (64, "devices.ironwood_rack.IronwoodRack", {}),
]
FABRICS = [
    (24, lambda: made("fabrics.single_tier_fabric.SingleTierFabric", made(DGX), 3)),
    (8, lambda: made("fabrics.closfabric.ClosFabric")),
    (128, lambda: made("fabrics.clos_fat_tree_fabric.ClosFatTreeFabric", switch(16), made(DGX), 2, [])),
    (16, lambda: made("fabrics.clos_fat_tree_fabric.ClosFatTreeFabric", switch(4), made(SERVER), 3, [])),
    (72, lambda: made("fabrics.dragonfly_fabric.DragonflyFabric", switch(16), made(SERVER), 4, 2, 2)),
    (1024, lambda: made("fabrics.hybrid_debruijn_fabric.HybridDeBruijnFabric", switch(32), made(SERVER), 3)),
    (1024, lambda: made("fabrics.multi_host_debruijn_fabric.MultiHostDeBruijnFabric", switch(32),
                        made(SERVER), 3)),
]  # fmt: skip


@pytest.mark.parametrize(("size", "path", "options"), DEVICES)
def test_every_server_loads_and_its_devices_reach_each_other(size, path, options):
    machine = read_machine(made(path, **options).serialize("dict"), path)
    ranks = np.arange(machine.size)
    assert machine.size == size
    assert machine.routes(ranks, np.roll(ranks, 1)).bandwidth(machine.links).min() > 1e9


@pytest.mark.first(5)
@pytest.mark.parametrize(("size", "fabric"), FABRICS)
def test_every_fabric_loads(size, fabric):
    machine = read_machine(fabric().serialize("dict"), "fabric")
    ranks = np.arange(min(machine.size, 64))
    assert machine.size == size
    assert machine.routes(ranks, np.roll(ranks, 1)).bandwidth(machine.links).min() > 1e9


def test_a_gpu_s_nvlink_bandwidth_is_spread_over_its_links():
    machine = read_machine(made(DGX).serialize("dict"), "dgx")
    to_switches = np.isclose(machine.links.bandwidth, 450e9 / 4)
    assert int((to_switches & (machine.links.src == 0)).sum()) == 4
    assert any("18 links of 25 GB/s" in line for line in machine.assumed)
