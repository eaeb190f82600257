"""The operators of one step as functions of its tokens, against the model's own arithmetic."""

from __future__ import annotations

import pytest

from chakrakit.serving.steps.operators import FOUR_BITS, LinearQuantity
from chakrakit.workloads.description import Plan
from support.forms import rank_weights

LAYER = 256 * 3 * 256 + 256 * 256 + 3 * 256 * 512
"""Weights of the matmuls of one layer."""


def matmuls(operators, quantity):
    """Sums over all matmuls of a step: of the quantity per token, and per sampled token."""
    rows = [o for o in operators.operators if o.op == "matmul"]
    linear = [(o.count, getattr(o, quantity)) for o in rows]
    return sum(n * q.tokens for n, q in linear), sum(n * q.sampled for n, q in linear)


def test_a_quantity_is_linear_in_the_sizes_of_a_step() -> None:
    assert LinearQuantity(1.0, 2.0, 3.0, 4.0).at(10.0, 100.0, 0.5) == 1 + 20 + 300 + 2


@pytest.mark.parametrize("tp", [1, 2])
def test_a_token_takes_two_operations_per_weight(operators, tp: int) -> None:
    """And each sampled one as many for the head's 1,000 × 256 weights."""
    layers, head = matmuls(operators(Plan(tp=tp)), "flops")
    assert layers == 2 * 2 * LAYER / tp
    assert head == 2 * 1000 * 256 / tp


@pytest.mark.parametrize("tp", [1, 2])
def test_the_weights_of_the_fullest_rank(operators, tp: int) -> None:
    made = operators(Plan(tp=tp))
    assert made.weight_bytes == 2 * rank_weights(made.model, made.plan, 2, first=True, last=True)


def test_weights_of_four_bits_have_a_scale_for_sixteen(operators) -> None:
    eight, four = operators(four_bits=True), operators(four_bits=True)
    eight.four_bits = False
    ends = 2 * (2 * 1000 * 256 + 256)  # embedding, head and its norm, in 16 bits
    layers = eight.weight_bytes - ends
    assert four.weight_bytes == int(ends + layers * FOUR_BITS)
    assert four.model_figures.precision.weight_bytes == four.weight_bytes
    for made, kind in ((eight, "fp8"), (four, "fp4")):
        products = {o.name: o.dtype for o in made.operators if o.op == "matmul"}
        assert products.pop("head") == "bf16"  # as its weights are kept
        assert set(products.values()) == {kind}


def test_attention_and_the_cache(operators) -> None:
    """A pair takes two products of 256; a token keeps 256 keys and 256 values of two bytes per layer."""
    made = operators()
    (attention,) = made.attention
    assert attention.layers == 2
    assert attention.flops_per_pair == 2 * 2 * 256
    assert attention.bytes_per_context == 2 * 256 * 2
    assert made.cache_bytes_per_token(100) == 2 * 2 * 256 * 2
    assert operators(Plan(pp=2)).cache_bytes_per_token(100) == 2 * 256 * 2


def test_the_share_of_experts_that_tokens_meet(operators) -> None:
    """Two of eight for each token: four tokens leave (3/4)⁴ of them out."""
    made = operators(experts=8, top_k=2)
    assert float(made.experts_met(4)) == pytest.approx(1 - 0.75**4)
    assert float(operators().experts_met(4)) == 1
