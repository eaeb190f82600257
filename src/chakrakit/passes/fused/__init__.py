"""Kernels in the place of others: a fused optimizer, fused attention, and a graph of all launches."""

from __future__ import annotations

from chakrakit.passes.fused.attention import FusedAttention
from chakrakit.passes.fused.graphed import Graphed
from chakrakit.passes.fused.optimizer import FusedOptimizer
from chakrakit.passes.fused.unfused import unfused_attention

__all__ = ["FusedAttention", "FusedOptimizer", "Graphed", "unfused_attention"]
