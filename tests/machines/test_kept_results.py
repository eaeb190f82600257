"""What presets say: their links, how long collectives take on them and what their tuners choose."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import chakrakit as ck
from chakrakit.machines import load_machine, recorded_on
from chakrakit.machines.collective_tables import plain_library
from chakrakit.machines.device import CostSource, Recosted, work_model
from chakrakit.machines.fabric import Dragonfly
from support.commands import chakra, data
from support.damaged import compare_outcomes, damages, printed
from support.kept_results import checksums, compare
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


@damages(30, 200)
@pytest.mark.parametrize("name", READ)
def test_kept_outcomes_of_damaged_descriptions(name: str, numbers: range, tmp_path: Path) -> None:
    """What each file that describes or measures a machine is read as, and what is said to damaged ones."""
    compare_outcomes(name, tmp_path, printed(READ[name]), numbers)


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


WORKLOADS: dict[str, dict[str, Any]] = {
    "training": {
        "model": "gpt3-125m",
        "layers": 2,
        "dp": 2,
        "tp": 2,
        "seq": 192,
        "global_batch": 4,
    },
    "experts": {
        "model": "mixtral-8x7b",
        "layers": 1,
        "ep": 4,
        "dp": 4,
        "seq": 64,
        "global_batch": 4,
    },
    "decoding": {"model": "llama3.1-8b", "layers": 2, "kind": "decode", "tp": 4, "concurrency": 5},
    "images": {"model": "vit-l-16", "layers": 1, "dp": 4, "global_batch": 8},
    "float32": {
        "model": "gpt3-125m",
        "layers": 1,
        "dp": 4,
        "dtype": "fp32",
        "seq": 96,
        "global_batch": 4,
    },
}
SETTINGS: dict[str, dict[str, Any]] = {
    "auto": {},
    "roofline": {"compute": "roofline"},
    "data sheet": {"compute": "data-sheet"},
    "capped": {"power_cap": 350.0},
    "slow clock": {"clock": {"": 900}},
    "backward slow": {"clock": {"backward": 1000}},
    "analytical": {"network": "analytical"},
    "framework": {"framework": "megatron"},
}


@cache
def generated(name: str) -> ck.TraceSet:
    """A small workload of four ranks."""
    return ck.generate(**WORKLOADS[name]).traces


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n != "dgx-h100" else ()) for n in PRESETS]
)
def test_kept_times_and_energy_on_presets(name: str) -> None:
    """Small workloads of several kinds at the highest clock and below it, by profile and by data sheet."""
    figures = {}
    for workload in WORKLOADS:
        for setting, options in SETTINGS.items():
            try:
                summary = ck.simulate(generated(workload), f"{name}:4", **options).summary.to_dict()
            except ck.ChakraError as refusal:
                summary = {"refused": str(refusal)}
            figures[f"{workload}, {setting}"] = summary
    compare(f"timed-{name}", checksums(figures))


LEVEL = "bandwidth: 25 GB/s, latency: 1 us"
NODE = f"{{topology: full, size: 4, {LEVEL}}}"
DEVICE = "{peak: {bf16: 100 TFLOP/s}, memory_bandwidth: 1 TB/s}"
NETWORKS = {
    "ring": f"[{{topology: ring, size: 5, {LEVEL}}}]",
    "torus": f"[{{topology: ring, size: 4, {LEVEL}}}, {{topology: ring, size: 3, {LEVEL}}}]",
    "full": f"[{{topology: full, size: 6, {LEVEL}}}, {{topology: switch, size: 2, {LEVEL}}}]",
    "tree": f"[{{topology: fat-tree, arity: [3, 4], oversubscription: 2, {LEVEL}}}]",
    "uplinks": f"[{{topology: fat-tree, arity: [4, 2, 2], uplinks: [3, 1], {LEVEL}}}]",
    "rails": f"[{NODE}, {{topology: fat-tree, arity: [2, 2], joins: rails, {LEVEL}}}]",
    "gateways": f"[{NODE}, {{topology: switch, size: 3, joins: gateways, {LEVEL}}}]",
    "dragonfly": f"[{{topology: dragonfly, dims: [3, 2, 2], {LEVEL}}}]",
    "reducing": f"[{{topology: switch, size: 8, reduction: true, {LEVEL}}}]",
}


@pytest.mark.parametrize("name", NETWORKS)
def test_kept_networks(name: str, tmp_path: Path) -> None:
    """What is said of a network, and how long collectives of all kinds take on it, odd sizes among them."""
    file = tmp_path / "m.yaml"
    file.write_text(f"network: {NETWORKS[name]}\ndevice: {DEVICE}\n")
    links = load_machine(str(file)).links
    columns = (links.src, links.dst, links.bandwidth, links.latency)
    figures: dict[str, Any] = {"links": [column.tolist() for column in columns]}
    for kind in KINDS:
        for members in ("4", "0,1,3", "all"):
            words = ("collective", kind, "--machine", file, "--sizes", "1000,3MiB")
            chosen = () if members == "all" else ("--members", members)
            figures[f"{kind} {members}"] = answer(*words, *chosen, place=tmp_path)
    compare(f"network-{name}", checksums(figures))


def answer(*words: object, place: Path = DATA) -> object:
    """What a command prints as JSON, or how it refuses, wherever its files are."""
    done = chakra(*words, "--json")
    text = (done.stdout or done.stderr).replace(str(place), "")
    return json.loads(text) if done.exit_code == 0 else text


EXCHANGES = ["dispatch", "combine"]


@pytest.mark.parametrize(
    "name",
    [
        "dgx-h200",
        pytest.param("dgx-h100", marks=pytest.mark.slow),
        pytest.param("dgx-b200", marks=pytest.mark.slow),
    ],
)
def test_kept_exchanges_of_experts(name: str) -> None:
    """By the kernels for training and for decoding, on one node and on several."""
    figures = {}
    for kind in EXCHANGES:
        for nodes in (1, 2, 4):
            for more in (
                (),
                ("--low-latency",),
                ("--most-nodes", 1),
                ("--topk", 3, "--hidden", 4096, "--sms", 16),
            ):
                words = (
                    "collective",
                    kind,
                    "--machine",
                    f"{name}:4",
                    "--members",
                    8 * nodes,
                    "--tokens",
                    "7,128,4096",
                )
                figures[f"{kind} {nodes} {more}"] = answer(*words, *more)
    compare(f"experts-{name}", checksums(figures))


def test_kept_collectives_of_engines() -> None:
    """Engines' own kernels, one by one and in graphs, for element types of several widths."""
    figures = {}
    for kernels in ("library", "engine", "fastest"):
        for more in ((), ("--eager",), ("--dtype", "float")):
            for machine in ("dgx-h100", "dgx-b200", "mi300x", "l40s-pcie"):
                words = (
                    "collective",
                    "all-reduce",
                    "--machine",
                    machine,
                    "--members",
                    4,
                    "--sizes",
                    SIZES,
                )
                figures[f"{machine}, {kernels} {more}"] = answer(
                    *words, "--kernels", kernels, *more
                )
    compare("engines-collectives", checksums(figures))
