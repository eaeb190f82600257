"""Global settings of PyTorch under which a plan was recorded, set again."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from chakrakit.replayer.runner.settings import apply_settings, set_allocator, threads_of


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, None),
        ({"memory_allocator": "native"}, None),
        ({"memory_allocator": "cudaMallocAsync"}, "backend:cudaMallocAsync"),
        ({"memory_allocator": "/tmp/evil.so"}, None),
        (
            {"memory_allocator": "cudaMallocAsync", "allocator": "x:1,expandable_segments:True"},
            "backend:cudaMallocAsync,expandable_segments:True",
        ),
    ],
)
def test_only_known_allocators_are_asked_for(monkeypatch, settings, said):
    monkeypatch.delenv("PYTORCH_CUDA_ALLOC_CONF", raising=False)
    set_allocator(settings)
    assert os.environ.get("PYTORCH_CUDA_ALLOC_CONF") == said


def test_what_the_user_set_stays(monkeypatch):
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "mine")
    set_allocator({"allocator": "expandable_segments:True"})
    assert os.environ["PYTORCH_CUDA_ALLOC_CONF"] == "mine"


@pytest.mark.parametrize(
    ("wanted", "threads"), [(2, 2), (64, 8), (0, 8), (None, 8), (True, 8), ("3", 8)]
)
def test_threads_are_as_recorded_but_no_more_than_there_are(wanted, threads):
    assert threads_of({"threads": wanted}, 8) == threads


@pytest.fixture
def torch():
    """A PyTorch that remembers what it is told, without cuDNN."""
    told = {}
    cuda = SimpleNamespace(
        matmul=SimpleNamespace(),
        enable_flash_sdp=lambda on: told.update(flash=on),
        enable_mem_efficient_sdp=lambda on: told.update(efficient=on),
    )
    return SimpleNamespace(
        told=told,
        backends=SimpleNamespace(cuda=cuda),
        set_float32_matmul_precision=lambda value: told.update(precision=value),
        use_deterministic_algorithms=lambda on, warn_only: told.update(same=on, warn=warn_only),
    )


def test_what_was_recorded_is_set_and_what_is_not_known_passed_over(torch):
    apply_settings(
        torch,
        {
            "float32_matmul_precision": "high",
            "allow_tf32": 1,
            "cudnn_benchmark": True,  # this build has no cuDNN
            "reduced_precision_reduction": {"bf16": False},
            "deterministic": True,
            "sdp_backends": {"flash": False, "efficient": True},
            "anything": "else",
        },
    )
    assert torch.told == {
        "precision": "high",
        "same": True,
        "warn": True,
        "flash": False,
        "efficient": True,
    }
    matmul = torch.backends.cuda.matmul
    assert (matmul.allow_tf32, matmul.allow_bf16_reduced_precision_reduction) == (True, False)


def test_a_precision_that_there_is_not_is_not_set(torch):
    apply_settings(torch, {"float32_matmul_precision": "sloppy", "sdp_backends": "all"})
    assert torch.told == {}
