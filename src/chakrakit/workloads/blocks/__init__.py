"""Attention in blocks: packed documents cut into blocks, who works on which, and what must be exchanged."""

from __future__ import annotations

from chakrakit.workloads.blocks.assignment import ASSIGNMENTS, SLACK, Terms, assigned
from chakrakit.workloads.blocks.attention import AttentionWork, attention_traces, generate_attention
from chakrakit.workloads.blocks.cutting import Blocks, cut
from chakrakit.workloads.blocks.exchange import (
    Assignment,
    BlockExchange,
    exchange_of,
    key_exchanges,
)

__all__ = [
    "ASSIGNMENTS",
    "SLACK",
    "Assignment",
    "AttentionWork",
    "BlockExchange",
    "Blocks",
    "Terms",
    "assigned",
    "attention_traces",
    "cut",
    "exchange_of",
    "generate_attention",
    "key_exchanges",
]
