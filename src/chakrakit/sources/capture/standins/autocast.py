"""Mixed precision for GPUs on the host that stands in for them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from chakrakit.sources.capture.recording import Patches

_HOST, _GPU = "AutocastCPU", "AutocastCUDA"
_ATEN = "aten::"
"""Libraries of operators (torchvision) register rules as well; they bring those for the host themselves."""
_LOWER = (
    "_convolution", "convolution", "cudnn_convolution", "cudnn_convolution_transpose",
    "_scaled_dot_product_flash_attention", "_thnn_fused_gru_cell", "_thnn_fused_lstm_cell",
    "gru_cell", "lstm_cell", "rnn_relu_cell", "rnn_tanh_cell",
    "addmv", "addr", "chain_matmul", "einsum", "linalg_multi_dot", "mv",
)  # fmt: skip
"""Operators that run in low precision on GPUs alone. These three lists are those of ATen/autocast_mode.h."""
_PROMOTED = (
    "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "index_put", "tensordot",
    "scatter_add",
)  # fmt: skip
_SINGLE_RESULT = (
    "softmax", "log_softmax", "cumprod", "cumsum", "sum", "linalg_vector_norm",
    "linalg_matrix_norm",
)  # fmt: skip
_FUSED = {"softmax": torch.ops.aten._softmax, "log_softmax": torch.ops.aten._log_softmax}


def install(patches: Patches) -> None:
    """`autocast("cuda")` and GradScaler work on the host, by a GPU's rules."""
    rules = _Rules()
    patches.on_undo(rules.end)
    patches.wrap(torch.amp.autocast, "__init__", partial(_on_host, rules))
    patches.wrap(torch.cuda.amp.autocast, "__init__", _cuda_only)
    patches.wrap(torch.amp.GradScaler, "__init__", _scaler)
    patches.wrap(
        torch.cuda.amp.GradScaler,
        "__init__",
        lambda _: lambda self, *a, **k: torch.amp.GradScaler.__init__(self, "cpu", *a, **k),
    )
    patches.set(torch.amp.GradScaler, "get_scale", _scale)
    for name in ("is_autocast_enabled", "get_autocast_dtype"):
        patches.wrap(torch, name, _asked_of_host)
    patches.set(torch, "get_autocast_gpu_dtype", lambda: torch.get_autocast_dtype("cpu"))


def _scale(scaler: Any) -> float:
    """The scale that it began with: nothing overflows here, and it grows after 2,000 steps at the soonest."""
    return float(scaler._init_scale) if scaler.is_enabled() else 1.0


def _on_host(rules: _Rules, plain: Callable[..., Any]) -> Callable[..., Any]:
    def init(
        self: Any,
        device_type: str = "cuda",
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: Any = None,
    ) -> None:
        cuda = str(device_type).startswith("cuda")
        if cuda:
            rules.use()
            dtype = torch.float16 if dtype is None else dtype
        plain(self, "cpu" if cuda else device_type, dtype, enabled, cache_enabled)

    return init


def _cuda_only(_plain: Callable[..., Any]) -> Callable[..., Any]:
    def init(
        self: Any, enabled: bool = True, dtype: Any = torch.float16, cache_enabled: bool = True
    ) -> None:
        torch.amp.autocast.__init__(self, "cuda", dtype, enabled, cache_enabled)

    return init


def _scaler(plain: Callable[..., Any]) -> Callable[..., Any]:
    def init(self: Any, device: Any = "cpu", *args: Any, **kwargs: Any) -> None:
        if not isinstance(device, str):  # torch.cuda.amp's has no device
            args = (device, *args)
        plain(self, "cpu", *args, **kwargs)

    return init


def _asked_of_host(plain: Callable[[str], Any]) -> Callable[..., Any]:
    def ask(device_type: str = "cuda") -> Any:
        return plain("cpu" if device_type == "cuda" else device_type)

    return ask


class _Rules:
    """Which operators change their types under autocast: the host's rules replaced by a GPU's.

    PyTorch knows the operators that either has a rule for. From the first `autocast("cuda")` to the end of
    the capture, those of the GPU alone have it on the host too, and those of the host alone have none.
    """

    def __init__(self) -> None:
        self._library: Any = None

    def use(self) -> None:
        """Use the GPU's rules from now on."""
        if self._library is not None:
            return
        registered = torch._C._dispatch_get_registrations_for_dispatch_key
        host, gpu = (
            {name for name in registered(key) if name.startswith(_ATEN)} for key in (_HOST, _GPU)
        )
        self._library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns of replaced rules
            for name in host - gpu:
                self._library.impl(_short(name), torch.library.fallthrough_kernel, _HOST)
            for name in gpu - host:
                self._library.impl(_short(name), _rule(name), _HOST)

    def end(self) -> None:
        """Put the host's rules back."""
        if self._library is not None:
            self._library._destroy()
            self._library = None


def _short(name: str) -> str:
    return name.removeprefix(_ATEN)


def _rule(name: str) -> Callable[..., Any]:
    base, _, overload = _short(name).partition(".")
    operator = getattr(getattr(torch.ops.aten, base), overload or "default")

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch._C._DisableAutocast():
            if base in _SINGLE_RESULT:
                return _in_single(base, operator, args, kwargs)
            kind = _kind(base, args)
            return operator(*_cast(args, kind), **_cast(kwargs, kind))

    return run


def _kind(base: str, args: Any) -> torch.dtype:
    if base in _LOWER:
        return torch.get_autocast_dtype("cpu")
    if base in _PROMOTED and not any(t.dtype is torch.float32 for t in _floating(args)):
        return torch.get_autocast_dtype("cpu")
    return torch.float32


def _in_single(base: str, operator: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operator with a single-precision result; softmax of a half does the conversion in its kernel."""
    arguments = dict(zip((a.name for a in operator._schema.arguments), args, strict=False)) | kwargs
    if _floating(args[:1]) and arguments.get("dtype") is None:
        if base in _FUSED and args[0].dtype is torch.float16:
            return _FUSED[base](args[0], arguments["dim"], True)
        arguments["dtype"] = torch.float32
    return operator(**arguments)


def _floating(value: Any) -> list[torch.Tensor]:
    """Tensors whose type autocast may change."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() and value.dtype is not torch.float64 else []
    return [t for v in value for t in _floating(v)] if isinstance(value, (list, tuple)) else []


def _cast(value: Any, kind: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(kind) if _floating(value) else value
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(v, kind) for v in value)
    return {k: _cast(v, kind) for k, v in value.items()} if isinstance(value, dict) else value
