"""What presets say: their links, how long collectives take on them and what their tuners choose."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

import chakrakit as ck
from chakrakit.machines import load_machine, recorded_on
from chakrakit.machines.collective_tables import plain_library
from chakrakit.machines.device import CostSource, Recosted, work_model
from chakrakit.machines.fabric import Dragonfly
from support.commands import data
from support.damaged import outcomes, printed
from support.kept_results import compare
from support.paths import DATA

PRESETS = [m.name for m in ck.list_machines().presets]
SIZES = "1KiB,64KiB,3MiB,256MiB"
KINDS = ["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast"]


@pytest.mark.parametrize("name", PRESETS)
def test_kept_collectives_of_presets(name: str) -> None:
    figures = {"machine": data("machines", name)}
    for kind in KINDS:
        for members in (2, 8):
            words = ("collective", kind, "--machine", f"{name}:8", "--members", members)
            figures[f"{kind} {members}"] = data(*words, "--sizes", SIZES)
    compare(f"machine-{name}", figures)


NODES = "nccl-topology hwloc nvidia-smi rocm-smi rocm-smi-json amd-smi amd-smi-json simai-topology"
READ = {
    **dict.fromkeys(NODES.split(), "machines {in}/node"),
    **dict.fromkeys(
        ("machine", "machine-graph", "infragraph", "astra-network"), "machines {in}/m.yaml"
    ),
    "microbenchmarks": "calibrate {in}/micro.json -o {out}",
    "nccl-tests": "calibrate --nccl-tests {in}/all_reduce.log {in}/all_gather.log -o {out}",
    "aiconfigurator": "calibrate {in}/tables -o {out}",
}


@pytest.mark.parametrize("name", READ)
def test_kept_outcomes_of_damaged_descriptions(name: str, tmp_path: Path) -> None:
    """What each file that describes or measures a machine is read as, and what is said to damaged ones."""
    compare(f"damaged-{name}", outcomes(name, tmp_path, printed(READ[name]), 30))


def test_kept_links_of_dragonflies() -> None:
    """Groups of routers that have one cable to each other group, and several."""
    figures = {}
    for groups, routers, hosts in ((3, 2, 2), (5, 4, 1), (9, 3, 2)):
        fabric = Dragonfly.make(groups, routers, hosts, 25e9, 1e-6, oversubscription=2.0)
        links = fabric.links
        columns = (links.src, links.dst, links.bandwidth, links.latency)
        rows = [list(row) for row in zip(*(c.tolist() for c in columns), strict=True)]
        figures[f"{groups} of {routers} of {hosts}"] = [fabric.ports, fabric.vertices, rows]
    compare("dragonflies", figures)


def test_kept_constants_to_start_from() -> None:
    """Of machines without a library."""
    libraries = {name: plain_library(load_machine(name)) for name in ("dgx-h100", "tpu-v5p")}
    compare("plain-libraries", {n: msgspec.to_builtins(lib) for n, lib in libraries.items()})


@pytest.mark.parametrize("name", ["graphed", "lstm"])
def test_kept_times_of_recordings_on_other_devices(name: str) -> None:
    """Carried from an H200, and from a device of which nothing but the name is known, by source."""
    trace = ck.link(DATA / "h200" / name)[0].body_at(0)
    figures = {}
    for source in ("NVIDIA H200", "a device nobody knows", "cpu"):
        for machine in ("dgx-h200", "dgx-h100", "dgx-a100", "tpu-v5p"):
            work = Recosted(work_model("auto"), recorded_on(source))
            costs = work.costs(trace, load_machine(machine).devices[0])
            sums = {
                CostSource(kind).name: [
                    int(costs.ps[costs.source == kind].sum()),
                    float(costs.error[costs.source == kind].sum()),
                ]
                for kind in np.unique(costs.source).tolist()
            }
            figures[f"{source} on {machine}"] = {**sums, "scaled": dict(work.scaled)}
    compare(f"carried-{name}", figures)
