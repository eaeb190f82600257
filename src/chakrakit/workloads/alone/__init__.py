"""Parts of a workload alone, from a file: attention in blocks, networks on grids, graph neural networks."""

from __future__ import annotations

from chakrakit.workloads.alone.figures import figures_of
from chakrakit.workloads.alone.files import KINDS, AlonePart, part_alone

__all__ = ["KINDS", "AlonePart", "figures_of", "part_alone"]
