"""A random graph whose features live on NVMe, and a machine with one GPU, host memory and a disk."""

from __future__ import annotations

from functools import cache

from chakrakit.machines import machine
from chakrakit.machines.fabric import Machine
from chakrakit.published import unsure
from chakrakit.workloads.parts import GnnGraph, GnnStep

VERTICES, DEGREE, PARTITIONS = 10_000, 15, 8
"""Small enough to follow, with the degree of a citation graph."""
NVME, HOST, PAGE = 7e9, 25e9, 4096
"""GB/s of a PCIe 4.0 disk read in order and of copies from host memory; the least that a disk reads."""


@cache
def graph(seed: int) -> GnnGraph:
    """The graph of a seed."""
    return GnnGraph(vertices=VERTICES, degree=DEGREE, partitions=PARTITIONS, seed=seed)


@cache
def small_graph(vertices: int, seed: int) -> GnnGraph:
    """One whose every use is followed."""
    return GnnGraph(vertices=vertices, degree=DEGREE, partitions=PARTITIONS, seed=seed)


@cache
def site(seed: int) -> Machine:
    """A GPU of 20 TFLOP/s and 1 TB/s."""
    device = {"name": "gpu", "peak": {"fp32": 20e12}, "memory_bandwidth": 1e12, "memory": "24 GB"}
    level = {"topology": "switch", "size": 1, "bandwidth": 1e9}
    storage = {
        "nvme": {"kind": "local", "bandwidth": NVME, "latency": "80 us", "page": PAGE},
        "host": {"kind": "local", "bandwidth": HOST, "latency": "5 us"},
    }
    return unsure(machine({"device": device, "network": [level], "storage": storage}), seed)


def working_set(step: GnnStep, seed: int) -> float:
    """Bytes of all features and of the results of all layers."""
    return 4.0 * VERTICES * (step.features + step.layers * step.hidden)
