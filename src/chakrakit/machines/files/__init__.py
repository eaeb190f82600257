"""Machines from what nodes and other tools say: one file per format, registered here by name and content."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from chakrakit.machines.fabric import Machine
from chakrakit.machines.files.hwloc import is_hwloc, read_hwloc
from chakrakit.machines.files.nccl_topology import is_nccl_topology, read_nccl_topology
from chakrakit.machines.files.rocm_topology import is_rocm_topology, read_rocm_topology
from chakrakit.machines.files.simai_topology import is_simai_topology, read_simai_topology
from chakrakit.machines.files.topology_matrix import is_topology_matrix, read_topology_matrix


class MachineFormat(NamedTuple):
    """A format that is not YAML or JSON of our own: its name, how it is recognised, its reader."""

    name: str
    recognises: Callable[[bytes], bool]
    """By the first 64 KiB."""
    read: Callable[[bytes, str], Machine]


MACHINE_FORMATS = (
    MachineFormat("NCCL's topology", is_nccl_topology, read_nccl_topology),
    MachineFormat("hwloc", is_hwloc, read_hwloc),
    MachineFormat("rocm-smi --showtopo", is_rocm_topology, read_rocm_topology),
    MachineFormat("nvidia-smi topo -m", is_topology_matrix, read_topology_matrix),
    MachineFormat("SimAI's topology", is_simai_topology, read_simai_topology),
)
"""The registry, in the order in which formats are tried."""

__all__ = ["MACHINE_FORMATS", "MachineFormat"]
