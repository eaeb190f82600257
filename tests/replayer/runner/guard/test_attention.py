"""Attention: heads, lengths and saved sums that fit together."""

from __future__ import annotations

import pytest

from chakrakit.replayer.runner.guard import Refused
from chakrakit.replayer.runner.guard.attention import ATTENTION

torch = pytest.importorskip("torch")

FORWARD = ATTENTION["scaled_dot_product_attention"]
BACKWARD = ATTENTION["_scaled_dot_product_flash_attention_backward"]
PACKED = ATTENTION["_flash_attention_forward"]


def f(*shape):
    return torch.zeros(shape)


def given(**changes):
    """Two batches of four heads, 5 queries, 7 keys of two heads, 8 wide."""
    return {"query": f(2, 4, 5, 8), "key": f(2, 2, 7, 8), "value": f(2, 2, 7, 8), **changes}


def test_the_result_is_as_long_as_the_queries_and_as_wide_as_the_values():
    assert FORWARD(given(value=f(2, 2, 7, 3))) == [2, 4, 5, 3]
    assert FORWARD(given(attn_mask=f(1, 1, 5, 7))) == [2, 4, 5, 8]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"query": f(4, 5, 8)}, "have 4 dimensions"),
        ({"key": f(2, 2, 0, 8), "value": f(2, 2, 0, 8)}, "attention to nothing"),
        ({"value": f(2, 2, 6, 8)}, "as many values as keys"),
        ({"key": f(2, 2, 7, 9)}, "keys of other queries"),
        ({"key": f(2, 3, 7, 8), "value": f(2, 3, 7, 8)}, "heads that do not divide"),
        ({"attn_mask": f(5, 6)}, "attn_mask of another shape"),
    ],
)
def test_what_does_not_fit_is_refused(changes, said):
    with pytest.raises(Refused, match=said):
        FORWARD(given(**changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        ({"grad_out": f(2, 4, 4, 8)}, "a gradient of another shape"),
        ({"out": f(2, 4, 5, 9)}, "a result of another shape"),
        ({"logsumexp": f(2, 4, 1)}, "sums of another shape"),
        ({"max_k": 99}, "max_k of another length"),
        ({"cum_seq_q": f(7)}, "cum_seq_q of another batch"),
    ],
)
def test_the_way_back_needs_a_sum_for_each_query(changes, said):
    saved = {"grad_out": f(2, 4, 5, 8), "out": f(2, 4, 5, 8), "logsumexp": f(2, 4, 5)}
    call = given(**(saved | changes))
    if said is None:
        return BACKWARD(call)
    with pytest.raises(Refused, match=said):
        BACKWARD(call)
    return None


def packed(**changes):
    """Twelve tokens of four heads in one row, keys alike."""
    tokens = {"query": f(12, 4, 8), "key": f(12, 4, 8), "value": f(12, 4, 8)}
    return {**tokens, "cum_seq_q": f(3), "max_q": 6, "max_k": 6, **changes}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cum_seq_q": None}, "no batches and no packed tokens"),
        ({"max_q": 13}, "max_q beyond what there is"),
        ({"alibi_slopes": f(4)}, "alibi_slopes is not replayed"),
        ({"key": f(12, 3, 8), "value": f(12, 3, 8)}, "heads that do not divide"),
    ],
)
def test_packed_tokens_say_where_sequences_end(changes, said):
    PACKED(packed())
    with pytest.raises(Refused, match=said):
        PACKED(packed(**changes))
