"""Global settings of PyTorch that change which kernels run or how long they take."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


def global_settings() -> dict[str, Any]:
    """The settings of this process now; those that this build does not have are left out."""
    import torch

    readers: dict[str, Callable[[], Any]] = {
        "allow_tf32": lambda: torch.backends.cuda.matmul.allow_tf32,
        "cudnn_allow_tf32": lambda: torch.backends.cudnn.allow_tf32,
        "float32_matmul_precision": torch.get_float32_matmul_precision,
        "reduced_precision_reduction": _reduced_precision,
        "deterministic": torch.are_deterministic_algorithms_enabled,
        "cudnn_deterministic": lambda: torch.backends.cudnn.deterministic,
        "cudnn_benchmark": lambda: torch.backends.cudnn.benchmark,
        "threads": torch.get_num_threads,
        "interop_threads": torch.get_num_interop_threads,
        "default_dtype": lambda: str(torch.get_default_dtype()),
        "grad_enabled": torch.is_grad_enabled,
        "autocast": _autocast,
        "sdp_backends": _attention,
        "memory_allocator": _allocator,
        "allocator": lambda: os.environ.get("PYTORCH_CUDA_ALLOC_CONF"),
    }
    values = {name: _read_setting(ask) for name, ask in readers.items()}
    return {name: value for name, value in values.items() if value is not None}


def _read_setting(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (AttributeError, RuntimeError, TypeError):
        return None


def _reduced_precision() -> dict[str, bool]:
    import torch

    matmul = torch.backends.cuda.matmul
    return {
        "fp16": bool(matmul.allow_fp16_reduced_precision_reduction),
        "bf16": bool(matmul.allow_bf16_reduced_precision_reduction),
    }


def _autocast() -> dict[str, str]:
    """Device types for which autocasting is on here, and to what; steps may switch it on themselves."""
    import torch

    return {
        kind: str(torch.get_autocast_dtype(kind))
        for kind in ("cpu", "cuda")
        if torch.is_autocast_enabled(kind)
    }


def _attention() -> dict[str, bool]:
    import torch

    cuda: Any = torch.backends.cuda
    return {
        "flash": cuda.flash_sdp_enabled(),
        "efficient": cuda.mem_efficient_sdp_enabled(),
        "math": cuda.math_sdp_enabled(),
        "cudnn": cuda.cudnn_sdp_enabled(),
    }


def _allocator() -> str:
    import torch

    return str(torch.cuda.get_allocator_backend()) if torch.cuda.is_available() else "cpu"
