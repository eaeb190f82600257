"""Global settings of PyTorch under which a plan was recorded, set again before anything runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

_PRECISIONS = ("highest", "high", "medium")
_ALLOCATORS = ("native", "cudaMallocAsync")


def set_allocator(settings: dict[str, Any]) -> None:
    """Before PyTorch is loaded: what the device's allocator is told is read only once."""
    kind, options = settings.get("memory_allocator"), settings.get("allocator", "")
    said = [f"backend:{kind}"] if kind in _ALLOCATORS and kind != "native" else []
    if "expandable_segments:True" in str(options):
        said.append("expandable_segments:True")
    if said:
        os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", ",".join(said))


def apply_settings(torch: Any, settings: dict[str, Any]) -> None:
    """Set what this PyTorch knows; values of another kind than expected are passed over."""
    for name, put in _SETTERS.items():
        value = settings.get(name)
        if value is None:
            continue
        try:
            put(torch, value)
        except (AttributeError, RuntimeError, TypeError, ValueError):
            continue  # this build does not have it


def threads_of(settings: dict[str, Any], share: int) -> int:
    """Threads of an operator on the host: as recorded, but no more than this rank's cores."""
    wanted = settings.get("threads")
    return min(wanted, share) if type(wanted) is int and wanted > 0 else share


def _precision(torch: Any, value: Any) -> None:
    if value in _PRECISIONS:
        torch.set_float32_matmul_precision(value)


def _tf32(torch: Any, value: Any) -> None:
    torch.backends.cuda.matmul.allow_tf32 = bool(value)


def _cudnn(name: str) -> Callable[[Any, Any], None]:
    return lambda torch, value: setattr(torch.backends.cudnn, name, bool(value))


def _reductions(torch: Any, value: dict[str, Any]) -> None:
    matmul = torch.backends.cuda.matmul
    for kind in ("fp16", "bf16"):
        if kind in value:
            setattr(matmul, f"allow_{kind}_reduced_precision_reduction", bool(value[kind]))


def _deterministic(torch: Any, value: Any) -> None:
    # Where no such algorithm exists, the program would have failed; the replay goes on.
    torch.use_deterministic_algorithms(bool(value), warn_only=True)


def _attention(torch: Any, value: dict[str, Any]) -> None:
    names = {"flash": "flash", "efficient": "mem_efficient", "math": "math", "cudnn": "cudnn"}
    for kind, name in names.items():
        if kind in value:
            getattr(torch.backends.cuda, f"enable_{name}_sdp")(bool(value[kind]))


_SETTERS: dict[str, Callable[[Any, Any], None]] = {
    "float32_matmul_precision": _precision,
    "allow_tf32": _tf32,
    "cudnn_allow_tf32": _cudnn("allow_tf32"),
    "cudnn_benchmark": _cudnn("benchmark"),
    "cudnn_deterministic": _cudnn("deterministic"),
    "reduced_precision_reduction": _reductions,
    "deterministic": _deterministic,
    "sdp_backends": _attention,
}
