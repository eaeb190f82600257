"""The device and its profiler, as far as this build of PyTorch has them."""

from __future__ import annotations

import importlib
from typing import Any


def synchronize() -> None:
    """Wait for the device, if there is one in use."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def activities() -> list[Any]:
    """All this build can record, host and device."""
    profiler: Any = importlib.import_module("torch.profiler")
    return list(profiler.supported_activities())


def sync_events() -> Any:
    """Ask the device's tracer to say what synchronizations waited for, where it can."""
    import torch

    try:
        return torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)
    except (AttributeError, TypeError):
        return None
