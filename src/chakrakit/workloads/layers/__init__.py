"""Operators and layers: what a block of a model does to one micro-batch."""

from __future__ import annotations

from chakrakit.workloads.layers.attention import ALL, Core, KeyExchange, Reach, Stretch
from chakrakit.workloads.layers.exchange import EXPERT_AXES
from chakrakit.workloads.layers.families import FamilyBlocks
from chakrakit.workloads.layers.fsdp import GatherUnit, elements, scattered, sharded
from chakrakit.workloads.layers.kept import Kept, caches_of, grows, kept
from chakrakit.workloads.layers.operators import add, lookup, norm, vector
from chakrakit.workloads.layers.resharding import ShardHolder, Transfer, gathers, spread, transfers
from chakrakit.workloads.layers.sharding import BYTES, Dim, Move, Tensor
from chakrakit.workloads.layers.stack import (
    FAMILIES,
    UNQUANTIZED,
    Stack,
    stack_of,
    token_axes,
    training_tokens,
)
from chakrakit.workloads.layers.tape import INPUT, Block, BlockNode, Tape, Weight
from chakrakit.workloads.layers.tokens import Tokens, linear

__all__ = [
    "ALL",
    "BYTES",
    "EXPERT_AXES",
    "FAMILIES",
    "INPUT",
    "UNQUANTIZED",
    "Block",
    "BlockNode",
    "Core",
    "Dim",
    "FamilyBlocks",
    "GatherUnit",
    "Kept",
    "KeyExchange",
    "Move",
    "Reach",
    "ShardHolder",
    "Stack",
    "Stretch",
    "Tape",
    "Tensor",
    "Tokens",
    "Transfer",
    "Weight",
    "add",
    "caches_of",
    "elements",
    "gathers",
    "grows",
    "kept",
    "linear",
    "lookup",
    "norm",
    "scattered",
    "sharded",
    "spread",
    "stack_of",
    "token_axes",
    "training_tokens",
    "transfers",
    "vector",
]
