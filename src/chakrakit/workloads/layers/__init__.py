"""Operators and layers: what a block of a model does to one micro-batch."""

from __future__ import annotations

from chakrakit.workloads.layers.attention import Core
from chakrakit.workloads.layers.families import FamilyBlocks
from chakrakit.workloads.layers.fsdp import Unit, elements, sharded
from chakrakit.workloads.layers.layers import Tokens, linear
from chakrakit.workloads.layers.operators import add, lookup, norm, vector
from chakrakit.workloads.layers.sharding import BYTES, Dim, Tensor
from chakrakit.workloads.layers.stack import FAMILIES, Stack, stack_of
from chakrakit.workloads.layers.tape import INPUT, Block, BlockNode, Tape, Weight

__all__ = [
    "BYTES",
    "FAMILIES",
    "INPUT",
    "Block",
    "BlockNode",
    "Core",
    "Dim",
    "FamilyBlocks",
    "Stack",
    "Tape",
    "Tensor",
    "Tokens",
    "Unit",
    "Weight",
    "add",
    "elements",
    "linear",
    "lookup",
    "norm",
    "sharded",
    "stack_of",
    "vector",
]
