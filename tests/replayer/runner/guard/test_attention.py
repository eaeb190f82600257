"""Attention: heads, lengths and saved sums that fit together."""

from __future__ import annotations

import pytest

from chakrakit.replayer.runner.guard import Refused
from chakrakit.replayer.runner.guard.attention import ATTENTION

torch = pytest.importorskip("torch")
FORWARD = ATTENTION["_scaled_dot_product_flash_attention"]
BACKWARD = ATTENTION["_scaled_dot_product_flash_attention_backward"]
FLASH = ATTENTION["_flash_attention_forward"]


def heads(q=(2, 8, 16, 64), kv=(2, 2, 32, 64), **more):
    """Batch, heads, length and width of queries, and of keys and values."""
    key = torch.zeros(kv)
    return {"query": torch.zeros(q), "key": key, "value": key, **more}


def test_queries_may_share_heads_of_keys():
    assert FORWARD(heads()) == [2, 8, 16, 64]
    mask = torch.zeros(2, 1, 16, 32)
    assert FORWARD(heads(attn_mask=mask)) == [2, 8, 16, 64]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (heads(q=(2, 8, 16)), "4 dimensions"),
        (heads(q=(2, 8, 0, 64)), "attention to nothing"),
        (heads() | {"value": torch.zeros(2, 2, 31, 64)}, "as many values as keys"),
        (heads(q=(3, 8, 16, 64)), "keys of other queries"),
        (heads(q=(2, 7, 16, 64)), "heads that do not divide"),
        (heads(attn_bias=torch.zeros(16, 31)), "attn_bias of another shape"),
    ],
)
def test_what_does_not_fit_is_refused(given, said):
    with pytest.raises(Refused, match=said):
        FORWARD(given)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        ({"grad_out": torch.zeros(2, 8, 15, 64)}, "a gradient of another shape"),
        ({"logsumexp": torch.zeros(2, 8, 15)}, "sums of another shape"),
        ({"max_q": 17}, "max_q of another length"),
        ({"cum_seq_q": torch.zeros(2)}, "cum_seq_q of another batch"),
    ],
)
def test_a_backward_pass_needs_one_sum_per_query(changes, said):
    out = torch.zeros(2, 8, 16, 64)
    given = heads(grad_out=out, out=out, logsumexp=torch.zeros(2, 8, 16), max_q=16, max_k=32)
    if said is None:
        BACKWARD(given | changes)
        return
    with pytest.raises(Refused, match=said):
        BACKWARD(given | changes)


def test_packed_tokens_need_their_ends():
    tokens = torch.zeros(40, 4, 64)
    given = {"query": tokens, "key": tokens, "value": tokens}
    with pytest.raises(Refused, match="no batches and no packed tokens"):
        FLASH(given)
    FLASH(given | {"cum_seq_q": torch.tensor([0, 40]), "max_q": 40})
    with pytest.raises(Refused, match="max_q beyond what there is"):
        FLASH(given | {"cum_seq_q": torch.tensor([0, 40]), "max_q": 41})
