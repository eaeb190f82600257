"""Parts of a workload, each from a file: attention in blocks, networks on grids, graph neural networks."""

from __future__ import annotations

from chakrakit.workloads.parts.figures import figures_of
from chakrakit.workloads.parts.files import KINDS, WorkloadPart, part_of
from chakrakit.workloads.parts.gnn import GnnGraph, GnnStep, generate_gnn

__all__ = ["KINDS", "GnnGraph", "GnnStep", "WorkloadPart", "figures_of", "generate_gnn", "part_of"]
