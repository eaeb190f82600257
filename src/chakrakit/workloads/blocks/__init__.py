"""Attention in blocks: packed documents cut into blocks, who works on which, and what must be exchanged."""

from __future__ import annotations

from chakrakit.workloads.blocks.assignment import ASSIGNMENTS, Terms, assigned
from chakrakit.workloads.blocks.attention import AttentionWork, attention_traces, generate_attention
from chakrakit.workloads.blocks.cutting import Blocks, cut
from chakrakit.workloads.blocks.exchange import Assignment, Exchange, exchange_of

__all__ = [
    "ASSIGNMENTS",
    "Assignment",
    "AttentionWork",
    "Blocks",
    "Exchange",
    "Terms",
    "assigned",
    "attention_traces",
    "cut",
    "exchange_of",
    "generate_attention",
]
