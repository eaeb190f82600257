"""Global settings of PyTorch that change which kernels run."""

import pytest

from chakrakit.sources.pytorch.recorder import global_settings

torch = pytest.importorskip("torch")


def test_settings_are_what_this_process_has_now(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        found = global_settings()
    assert (found["threads"], found["cudnn_benchmark"], found["grad_enabled"]) == (3, True, False)
    assert found["autocast"] == {"cpu": "torch.bfloat16"}
    assert found["allocator"] == "expandable_segments:True"
    assert found["default_dtype"] == "torch.float32"


def test_what_this_build_does_not_have_is_left_out(monkeypatch):
    def missing():
        raise AttributeError

    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", missing)
    monkeypatch.delenv("PYTORCH_CUDA_ALLOC_CONF", raising=False)
    found = global_settings()
    assert "deterministic" not in found
    assert "allocator" not in found
    assert "cudnn_deterministic" in found
