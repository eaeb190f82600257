"""The operators a GPU would run, where PyTorch chooses by device."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

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


BACKENDS = {
    "cudnn": torch.backends.cuda.enable_cudnn_sdp,
    "flash": torch.backends.cuda.enable_flash_sdp,
    "efficient": torch.backends.cuda.enable_mem_efficient_sdp,
}


@pytest.mark.parametrize(
    ("chosen", "operator"),
    [
        ([SDPBackend.FLASH_ATTENTION], "_scaled_dot_product_flash_attention"),
        ([SDPBackend.EFFICIENT_ATTENTION], "_scaled_dot_product_efficient_attention"),
        (
            [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.FLASH_ATTENTION],
            "_scaled_dot_product_flash_attention",
        ),
        ([SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH], "_scaled_dot_product_cudnn_attention"),
    ],
)
def test_attention_is_one_of_the_backends_that_a_program_chooses(names, chosen, operator):
    q = torch.empty(1, 4, 16, 64, dtype=torch.bfloat16, requires_grad=True)
    with sdpa_kernel(chosen):
        functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    assert [n for n in names() if "attention" in n] == [
        f"aten::{operator}",
        f"aten::{operator}_backward",
    ]


def test_a_program_s_own_order_of_backends_holds(names):
    q = torch.empty(1, 4, 16, 64, dtype=torch.bfloat16)
    order = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION]
    with sdpa_kernel(order, set_priority=True):
        functional.scaled_dot_product_attention(q, q, q)
    assert "aten::_scaled_dot_product_efficient_attention" in names()


@pytest.mark.parametrize("way", ["kernel", "flags"])
def test_attention_by_products_holds_the_scores_in_single_precision(names, recorder, way):
    q = torch.empty(2, 4, 16, 64, dtype=torch.bfloat16, requires_grad=True)
    if way == "kernel":
        with sdpa_kernel(SDPBackend.MATH):
            out = functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    else:
        for switch in BACKENDS.values():
            switch(False)
        try:
            out = functional.scaled_dot_product_attention(q, q, q, is_causal=True)
        finally:
            for switch in BACKENDS.values():
                switch(True)
    assert (out.shape, out.dtype) == (q.shape, q.dtype)
    found = names()
    assert [found.count(f"aten::{n}") for n in ("bmm", "_safe_softmax", "tril")] == [2, 1, 1]
    product = next(s for s in recorder.signatures.listed if s.name == "aten::bmm")
    assert (product.outputs_shapes, product.dtype) == ("[[8,16,16]]", "fp32")


def test_attention_that_no_backend_can_compute_fails_as_on_a_gpu(names):
    q = torch.empty(1, 4, 16, 64)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), pytest.raises(RuntimeError, match="No available"):
        functional.scaled_dot_product_attention(q, q, q)


def test_other_gpus_than_hopper_ask_flash_attention_first(patches, recorder, fake):
    target.install(patches, recorder, (8, 0))
    q = torch.empty(1, 4, 16, 64, dtype=torch.bfloat16)
    with recorder:
        functional.scaled_dot_product_attention(q, q, q)
    listed = [s.name for s in recorder.signatures.listed]
    assert "aten::_scaled_dot_product_flash_attention" in listed
