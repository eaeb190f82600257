"""The operations of rows that were generated: read off `op_type`, shapes, element type and name.

Generated rows name what they compute (`matmul`, `attention`), not an operator of a framework. Their shapes
are those of the operands, so that they are looked up in the same classes of a profile as recorded ones.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod
from typing import NamedTuple

from chakrakit.operators import (
    PRODUCT_MARKS,
    Operation,
    attention_flops,
    element_bytes,
    rate_name,
    streamed,
)

_OPTIMIZER = "optimizer"
"""The `op_type` of a parameter update; it is timed as a fused AdamW."""
STREAMING = ("vector", "lookup", "repack", _OPTIMIZER)
"""The types of rows that take as long as their bytes. What is not typed, or as another generator types it,
may be a product: its FLOPs count, at the rate of products."""
_SHAPE = re.compile(r"\[([\d,]+)\]")
_ATTENTION = "cudnn"
"""The kernels that stand for a fused attention: those that frameworks take on today's devices."""


class GeneratedRow(NamedTuple):
    """The columns of a generated row that say what it computes."""

    name: str
    op_type: str
    dtype: str
    phase: str
    shapes: str
    flops: float
    moved: float


def operand_sizes(shapes: str) -> list[tuple[int, ...]]:
    """The sizes of each operand of a row's `inputs_shapes`."""
    return [tuple(map(int, part.split(","))) for part in _SHAPE.findall(shapes)]


def is_of_experts(name: str) -> bool:
    """Whether a generated row is of a layer's experts: `moe.experts.up`, `layers.3.moe.experts.up`."""
    return name.startswith("moe.") or ".moe." in name


@lru_cache(1 << 14)
def generated_operation(row: GeneratedRow) -> Operation | None:
    """The operation of a row; None where it neither computes nor moves anything."""
    if row.op_type == _OPTIMIZER and row.moved:
        return Operation("adamw", (), 0.0, row.moved)
    sizes = operand_sizes(row.shapes)
    if row.op_type == "matmul" and row.flops:
        return _product(row, sizes)
    if row.op_type == "attention" and row.flops:
        part = _UNFUSED.search(row.name)
        return _unfused(row, sizes, *part.groups()) if part else _attention(row, sizes)
    if row.flops and row.op_type not in STREAMING:
        return Operation("gemm", (), row.flops, row.moved)
    return streamed(int(row.moved)) if row.moved else None


def _product(row: GeneratedRow, sizes: list[tuple[int, ...]]) -> Operation:
    """A product by its class: weights lie transposed forward, rows of a weight's gradient lie apart."""
    if len(sizes) != 2 or {len(s) for s in sizes} - {2, 3} or len(sizes[0]) != len(sizes[1]):
        return Operation("gemm", (), row.flops, row.moved)
    (*_, m, k), (*_, n) = sizes
    batch = prod(sizes[0][:-2])
    weight = row.name.endswith(".dw")
    precision = PRODUCT_MARKS.get(rate_name(row.dtype or "bf16"), "")
    if batch > 1 and is_of_experts(row.name):
        table = "grouped.weight" if weight else "grouped"
        shape = (k if weight else batch * m, n, m if weight else k, batch)
        return Operation("gemm", shape, row.flops, row.moved, table + precision)
    layout = ".tn" if weight else ".nn" if row.name.endswith(".dx") else ".nt"
    if batch > 1:
        return Operation("gemm", (batch, m, n, k), row.flops, row.moved, f"bmm{precision}{layout}")
    return Operation("gemm", (m, n, k), row.flops, row.moved, f"gemm{precision}{layout}")


def _unfused(
    row: GeneratedRow, sizes: list[tuple[int, ...]], part: str, backward: str | None
) -> Operation:
    """One of the products of unfused attention, of every head; a backward row stands for two of them."""
    (batch, heads, queries, head), (_, _, keys, _), (*_, value_head) = sizes
    precision = PRODUCT_MARKS.get(rate_name(row.dtype or "bf16"), "")
    count = batch * heads * (2 if backward else 1)
    if part == "scores" and not backward:
        shape, layout = (count, queries, keys, head), ".nt"
    else:
        shape, layout = (count, queries, head if part == "scores" else value_head, keys), ".nn"
    return Operation("gemm", shape, row.flops, row.moved, f"bmm{precision}{layout}")


def _attention(row: GeneratedRow, sizes: list[tuple[int, ...]]) -> Operation:
    """Fused attention by (batch × heads, queries, keys, head size); a generated backward counts no scores."""
    if len(sizes) != 3 or {len(s) for s in sizes} != {4}:
        return Operation("attention", (), row.flops, row.moved)
    (batch, heads, queries, head), (_, key_heads, keys, _), (*_, value_head) = sizes
    backward = row.phase == "backward"
    kind = "attention_backward" if backward else "attention"
    if queries == 1 and not backward:
        shape = (batch * key_heads, heads // max(1, key_heads), keys, head)
        return Operation(kind, shape, row.flops, row.moved, f"decode.{_ATTENTION}")
    scores = batch * heads * queries * keys
    whole = attention_flops(scores, head, value_head, backward=backward, scores_again=False)
    share = row.flops / whole if whole else 1.0
    flops = share * attention_flops(scores, head, value_head, backward=backward)
    table = (
        f"{kind}.{_ATTENTION}" + ".causal" * (share < _CAUSAL) + ".grouped" * (heads != key_heads)
    )
    moved = max(row.moved, element_bytes("bf16") * sum(map(prod, sizes)))
    return Operation(kind, (batch * heads, queries, keys, head), flops, moved, table)


_UNFUSED = re.compile(r"\bcore\.(scores|values)(?:\.again)?(\.dx)?$")
"""Rows of attention whose scores go through memory; the softmax between them streams."""
_CAUSAL = 0.75
"""The share of all scores below which attention is causal, which computes half of them."""
