"""Closed forms: floating-point operations from plain sizes, for recorded and for generated operators alike.

A multiply-add is two operations. What a mask, padding or an empty group would spare is not subtracted,
with one exception: causal attention counts half of all scores. A convolution counts its whole window for
every element of the result, elements of the padding included, which is what kernels compute and what
`torch.utils.flop_counter` counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod
from typing import NamedTuple


class PerElement(NamedTuple):
    """Operations for every element, of an operator and of its gradient."""

    forward: int
    backward: int


NORM = PerElement(5, 14)
"""A mean of squares and a scaling."""
LAYER_NORM = PerElement(8, 14)
"""Two moments, a shift and a scaling; batch and group norms alike."""
SOFTMAX = PerElement(5, 4)
"""Largest, difference, exponential, sum, quotient; product, sum, difference, product."""
GELU = PerElement(10, 15)
"""An error function counts about eight."""
SILU = PerElement(5, 8)
"""A logistic function counts about four."""
SWIGLU = PerElement(SILU.forward + 1, SILU.backward + 2)
"""SiLU of one half times the other; the gradient has a product for each half."""
LSTM_CELL, GRU_CELL = 13, 10
"""Per element of the state, once products gave the gates: sums of gates, activations, the new state."""
ADAM, ADAMW, SGD = 14, 16, 4
"""Per parameter: two moments, corrections, root, quotient and step; the decay besides; momentum and step."""


COMPLEX = 4
"""Real multiply-adds in a complex one: a multiply-add of complex numbers is eight operations."""


def product_flops(m: int, n: int, k: int, batch: int = 1) -> int:
    """Operations of `batch` products of an M×K matrix with a K×N matrix."""
    return 2 * batch * m * n * k


def attention_flops(
    scores: int | Fraction,
    width: int,
    value_width: int,
    *,
    causal: bool = False,
    backward: bool = False,
    scores_again: bool = True,
) -> int:
    """Operations of attention with `scores` pairs of a query and a key, over batch and query heads.

    Forward there are two products per score: with a key of `width`, with a value of `value_width`. Backward
    each has two gradients, and fused kernels compute the scores once more; without `scores_again` they are
    taken as kept. Fewer heads of keys than of queries save nothing, since every query head has its own
    scores. Causality saves half.
    """
    per_score = 2 * (width + value_width)
    if backward:
        per_score = 2 * per_score + 2 * width * scores_again
    return int(scores * per_score // (2 if causal else 1))


def convolution_flops(pixels: int, weight: Sequence[int]) -> int:
    """Operations of a window for each of `pixels`: batch × size of the result, of the image if transposed.

    The weight is (channels, channels of a group, window…), whichever of the two are the result's.
    """
    return 2 * pixels * prod(weight)


def convolution_size(
    size: int, window: int, stride: int = 1, padding: int = 0, dilation: int = 1
) -> int:
    """Elements that a convolution gives along one dimension."""
    return max(0, (size + 2 * padding - dilation * (window - 1) - 1) // max(1, stride) + 1)


def transposed_size(
    size: int, window: int, stride: int = 1, padding: int = 0, dilation: int = 1, more: int = 0
) -> int:
    """Elements that a transposed convolution gives along one dimension; `more` is its output padding."""
    return max(0, (size - 1) * stride - 2 * padding + dilation * (window - 1) + more + 1)


def recurrent_flops(steps: int, batch: int, weights: int, passes: int = 1) -> int:
    """Operations that use every weight once per step and batch entry; gradients are two such passes."""
    return 2 * passes * steps * batch * weights
