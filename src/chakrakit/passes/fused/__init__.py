"""Steps that do the same with other kernels, or find ready what they waited for."""

from __future__ import annotations

from chakrakit.passes.fused.ahead import Ahead, copies, loads
from chakrakit.passes.fused.attention import FusedAttention
from chakrakit.passes.fused.channels import ChannelsLast
from chakrakit.passes.fused.graphed import Graphed
from chakrakit.passes.fused.optimizer import FusedOptimizer
from chakrakit.passes.fused.unfused import unfused_attention

__all__ = [
    "Ahead",
    "ChannelsLast",
    "FusedAttention",
    "FusedOptimizer",
    "Graphed",
    "copies",
    "loads",
    "unfused_attention",
]
