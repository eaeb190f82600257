"""Graph neural networks over random graphs, as traces."""

from __future__ import annotations

from chakrakit.workloads.graphs.gnn import GnnGraph, GnnStep, generate_gnn

__all__ = ["GnnGraph", "GnnStep", "generate_gnn"]
