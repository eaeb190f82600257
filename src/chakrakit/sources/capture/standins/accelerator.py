"""torch.accelerator, which names no device: it answers as torch.cuda does."""

from __future__ import annotations

from typing import Any

import torch

from chakrakit.sources.capture.recording import Patches

_SAME = (
    "is_available", "device_count", "current_stream", "synchronize", "empty_cache",
    "get_device_capability", "memory_allocated", "memory_reserved", "memory_stats",
    "max_memory_allocated", "max_memory_reserved", "reset_peak_memory_stats",
    "reset_accumulated_memory_stats",
)  # fmt: skip
_OTHER = {
    "current_device_index": "current_device",
    "current_device_idx": "current_device",
    "set_device_index": "set_device",
    "set_device_idx": "set_device",
    "device_index": "device",
    "get_memory_info": "mem_get_info",
}


def install(patches: Patches) -> None:
    """Of torch.cuda's functions, as they have been replaced already."""
    accelerator = torch.accelerator
    for name, of_cuda in {**{n: n for n in _SAME}, **_OTHER}.items():
        if hasattr(accelerator, name):
            patches.set(accelerator, name, getattr(torch.cuda, of_cuda))
    patches.set(accelerator, "current_accelerator", _current)
    patches.set(torch._C, "_get_accelerator", _current)


def _current(*_: Any, **__: Any) -> torch.device:
    return torch.device("cuda")
