"""The operators a GPU would run, where PyTorch chooses by device."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as functional

from chakrakit.sources.capture.standins import target


@pytest.fixture
def names(patches, recorder, fake):
    """Names of the operators that were dispatched."""
    target.install(patches, recorder)
    with recorder:
        yield lambda: [recorder.signatures.listed[op.signature].name for op in recorder.ops]


@pytest.mark.parametrize(
    ("kind", "operator"),
    [
        (torch.bfloat16, "aten::_scaled_dot_product_cudnn_attention"),
        (torch.float32, "aten::_scaled_dot_product_efficient_attention"),
    ],
)
def test_attention_is_that_of_a_gpu(names, kind, operator):
    q = torch.empty(1, 4, 16, 64, dtype=kind)
    out = functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    assert operator in names()
    assert out.shape == q.shape


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float32])
def test_attention_with_a_learnt_mask_is_plain_products(names, kind):
    q = torch.empty(2, 4, 16, 64, dtype=kind, requires_grad=True)
    mask = torch.empty(1, 4, 16, 16, requires_grad=True)
    functional.scaled_dot_product_attention(q, q, q, mask, dropout_p=0.1).sum().backward()
    assert mask.grad.shape == mask.shape
    found = names()
    assert [found.count(f"aten::{n}") for n in ("bmm", "_safe_softmax", "native_dropout")] == [
        6,
        1,
        1,
    ]
    assert not any("attention" in name for name in found)


def test_heads_shared_by_several_queries_are_repeated(names):
    q, kv = torch.empty(1, 8, 16, 64), torch.empty(1, 2, 16, 64)
    assert functional.scaled_dot_product_attention(q, kv, kv, enable_gqa=True).shape == q.shape


def test_dropout_is_one_kernel_in_training_and_nothing_otherwise(names):
    x = torch.empty(4)
    assert functional.dropout(x, 0.1, training=False) is x
    functional.dropout(x, 0.1, training=True)
    assert names() == ["aten::empty", "aten::native_dropout"]


def test_a_norm_is_one_kernel_each_way(names):
    x, weight = torch.empty(3, 8, requires_grad=True), torch.empty(8, requires_grad=True)
    functional.rms_norm(x, [8], weight, 1e-5).sum().backward()
    found = names()
    assert found.count("aten::_fused_rms_norm") == 1
    assert found.count("aten::_fused_rms_norm_backward") == 1
    assert (x.grad.shape, weight.grad.shape) == ((3, 8), (8,))


def test_optimizers_use_the_forms_that_gpus_have(names):
    parameter = torch.nn.Parameter(torch.empty(4))
    parameter.grad = torch.empty(4)
    torch.optim.AdamW([parameter], 0.1).step()
    assert "aten::_foreach_lerp_" in names()
    torch.nn.utils.clip_grad_norm_([parameter], 1.0)
    assert "aten::_foreach_norm" in names()
