"""Global settings of PyTorch under which a plan was recorded."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from chakrakit.replayer.runner.settings import apply_settings, set_allocator, threads_of


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"memory_allocator": "cudaMallocAsync"}, "backend:cudaMallocAsync"),
        ({"allocator": "expandable_segments:True,x:1"}, "expandable_segments:True"),
        ({"memory_allocator": "native"}, None),
        ({"memory_allocator": "mine; rm"}, None),
    ],
)
def test_the_allocator_is_told_before_pytorch_is_loaded(monkeypatch, settings, said):
    monkeypatch.delenv("PYTORCH_CUDA_ALLOC_CONF", raising=False)
    set_allocator(settings)
    assert os.environ.get("PYTORCH_CUDA_ALLOC_CONF") == said


def test_what_this_pytorch_knows_is_set_and_the_rest_passed_over():
    said = []
    matmul = SimpleNamespace()
    torch = SimpleNamespace(
        set_float32_matmul_precision=said.append,
        backends=SimpleNamespace(cuda=SimpleNamespace(matmul=matmul), cudnn=SimpleNamespace()),
    )
    apply_settings(
        torch,
        {
            "float32_matmul_precision": "high",
            "allow_tf32": 1,
            "cudnn_benchmark": True,
            "reduced_precision_reduction": {"bf16": False},
            "deterministic": True,  # which this PyTorch does not have
            "sdp_backends": 7,
            "unheard_of": True,
        },
    )
    assert said == ["high"]
    assert matmul.allow_tf32 is True
    assert matmul.allow_bf16_reduced_precision_reduction is False
    assert torch.backends.cudnn.benchmark is True


def test_a_precision_that_there_is_not_is_left_alone():
    said = []
    apply_settings(
        SimpleNamespace(set_float32_matmul_precision=said.append), {"float32_matmul_precision": "x"}
    )
    assert said == []


@pytest.mark.parametrize(("wanted", "found"), [(2, 2), (64, 8), (None, 8), (0, 8), ("4", 8)])
def test_threads_as_recorded_but_no_more_than_a_rank_s_cores(wanted, found):
    assert threads_of({"threads": wanted}, 8) == found
