"""The operators a GPU would run, where PyTorch chooses by device and the host stands in for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as functional
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed.tensor import DTensor
from torch.nn.attention import SDPBackend

from chakrakit.sources.capture.observing import Recorder
from chakrakit.sources.capture.recording import Patches

_HALF = (torch.float16, torch.bfloat16)


def install(patches: Patches, recorder: Recorder, capability: tuple[int, int] = (9, 0)) -> None:
    """Replace the functions whose operators depend on the device, by default on an H100."""
    from torch.optim import optimizer
    from torch.utils import _foreach_utils

    for owner, name in (
        (functional, "scaled_dot_product_attention"),
        (torch._C._nn, "scaled_dot_product_attention"),
    ):
        patches.wrap(owner, name, _attention(capability))
    patches.wrap(functional, "linear", _linear)
    patches.wrap(functional, "dropout", _dropout)
    patches.wrap(torch, "dropout", _dropout)
    patches.wrap(functional, "rms_norm", _rms_norm(recorder))
    patches.wrap(torch, "rms_norm", _rms_norm(recorder))
    for name in ("_get_foreach_kernels_supported_devices", "_get_fused_kernels_supported_devices"):
        for owner in (optimizer, _foreach_utils):
            patches.wrap(owner, name, lambda plain: lambda: [*plain(), "cpu"])
    for owner in (
        optimizer,
        _foreach_utils,
    ):  # what they ask is a parameter's type, here a fake one's
        types = [*owner._foreach_supported_types, FakeTensor]
        patches.set(owner, "_foreach_supported_types", types)
    for module in (_foreach_utils, torch.nn.utils.clip_grad):
        patches.wrap(module, "_device_has_foreach_support", lambda _: lambda device: True)
    patches.wrap(torch.nn.utils.clip_grad, "_group_tensors_by_device_and_dtype", _as_shown)


def _as_shown(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Groups of tensors by the device that they are shown to be on: clipping moves its factor there."""

    def grouped(*args: Any, **kwargs: Any) -> Any:
        groups = plain(*args, **kwargs).items()
        return {(lists[0][0][0].device, dtype): lists for (_, dtype), lists in groups}

    return grouped


_HOPPER = ((9, 0), (10, 0))
"""Compute capabilities on which PyTorch asks cuDNN first (`check_prefer_cudnn_attention`, sdp_utils.cpp)."""
_UNCHANGED = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""The order in which PyTorch asks all others, and how its list begins where no program has changed it."""
_ENABLED: dict[SDPBackend, Callable[[], bool]] = {
    SDPBackend.CUDNN_ATTENTION: torch.backends.cuda.cudnn_sdp_enabled,
    SDPBackend.FLASH_ATTENTION: torch.backends.cuda.flash_sdp_enabled,
    SDPBackend.EFFICIENT_ATTENTION: torch.backends.cuda.mem_efficient_sdp_enabled,
    SDPBackend.MATH: torch.backends.cuda.math_sdp_enabled,
}


def _order(capability: tuple[int, int]) -> list[SDPBackend]:
    """The backends in the order in which PyTorch asks them: the program's, else the GPU's."""
    listed = [SDPBackend(number) for number in torch._C._get_sdp_priority_order()]
    known = [backend for backend in listed if backend in _ENABLED]
    if known[: len(_UNCHANGED)] != _UNCHANGED or capability not in _HOPPER:
        return known
    return [SDPBackend.CUDNN_ATTENTION, *_UNCHANGED]


def _backend(
    capability: tuple[int, int], query: torch.Tensor, mask: torch.Tensor | None
) -> SDPBackend:
    """The first backend that the program has enabled and that can compute the call."""
    learnt = mask is not None and mask.requires_grad and torch.is_grad_enabled()
    fused, half = not learnt, query.dtype in _HALF
    can = {
        SDPBackend.CUDNN_ATTENTION: fused and half and capability >= (8, 0),
        SDPBackend.FLASH_ATTENTION: fused and half and mask is None and capability >= (8, 0),
        SDPBackend.EFFICIENT_ATTENTION: fused,
        SDPBackend.MATH: True,
    }
    for backend in _order(capability):
        if can[backend] and _ENABLED[backend]():
            return backend
    raise RuntimeError("No available kernel. Aborting execution.")  # as PyTorch says it


def _attention(capability: tuple[int, int]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Attention by the kernels that a GPU would take of those that the program has enabled.

    A mask that is learnt, as T5's places are, has no fused one: PyTorch 2.11 on an H200 computed it by plain
    products and a softmax.
    """

    def make(plain: Callable[..., Any]) -> Callable[..., Any]:
        def attention(
            query: Any,
            key: Any,
            value: Any,
            attn_mask: Any = None,
            dropout_p: float = 0.0,
            is_causal: bool = False,
            scale: float | None = None,
            enable_gqa: bool = False,
        ) -> Any:
            plainly = query.dim() != 4 or query.shape[-1] % 8 or query.shape[-1] > 256
            if plainly and not _only_products():
                arguments = (query, key, value, attn_mask, dropout_p, is_causal)
                return plain(*arguments, scale=scale, enable_gqa=enable_gqa)
            query, key, value = (_as_autocast(t) for t in (query, key, value))
            backend = _backend(capability, query, attn_mask)
            takes_fewer_heads = (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION)
            if enable_gqa and key.shape[-3] != query.shape[-3] and backend not in takes_fewer_heads:
                times = query.shape[-3] // key.shape[-3]
                key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
            if backend == SDPBackend.MATH:
                mask = _causal_mask(query, key) if is_causal else attn_mask
                return _attention_by_products(query, key, value, mask, dropout_p, scale)
            if backend == SDPBackend.FLASH_ATTENTION:
                return torch.ops.aten._scaled_dot_product_flash_attention(
                    query, key, value, dropout_p, is_causal, False, scale=scale
                )[0]
            grows = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
            mask = None if attn_mask is None else _added_mask(attn_mask, query, key)
            if backend == SDPBackend.EFFICIENT_ATTENTION:
                return torch.ops.aten._scaled_dot_product_efficient_attention(
                    query, key, value, mask, grows, dropout_p, is_causal, scale=scale
                )[0]
            return torch.ops.aten._scaled_dot_product_cudnn_attention(
                query, key, value, mask, grows, dropout_p, is_causal, False, scale=scale
            )[0]

        return attention

    return make


def _only_products() -> bool:
    """Whether the program has left plain products as the only way to compute attention."""
    return [backend for backend, enabled in _ENABLED.items() if enabled()] == [SDPBackend.MATH]


def _causal_mask(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """The mask that attention by products makes for itself: 0 where a query may look, else minus infinity."""
    size = (query.shape[-2], key.shape[-2])
    seen = query.new_ones(size, dtype=torch.bool).tril()
    return query.new_zeros(size).masked_fill_(seen.logical_not(), float("-inf"))


def _attention_by_products(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout_p: float,
    scale: float | None,
) -> torch.Tensor:
    """Attention where no fused kernel computes it: in float32, with half of the scale on either side."""
    half = query.dtype
    root = (query.shape[-1] ** -0.5 if scale is None else scale) ** 0.5
    with torch.autocast("cpu", enabled=False):
        if mask is not None and mask.dtype is torch.bool:
            mask = query.new_zeros(mask.shape).masked_fill_(mask.logical_not(), float("-inf"))
        query, key, value = (t.float() for t in (query, key, value))
        weights = torch.matmul(query * root, key.transpose(-2, -1) * root)
        if mask is not None:
            weights = weights.add_(mask.to(half).float())
        weights = torch.ops.aten._safe_softmax(weights, -1)
        if dropout_p > 0:
            weights = torch.ops.aten.native_dropout(weights, dropout_p, True)[0]
        return torch.matmul(weights, value).to(half)


def _linear(plain: Callable[..., Any]) -> Callable[..., Any]:
    """A layer on rows that lie apart: PyTorch adds the bias in place, except for fake tensors."""

    def linear(input: Any, weight: Any, bias: Any = None) -> Any:
        apart = bias is not None and type(input) is FakeTensor and input.dim() > 2
        if not apart or input.is_contiguous() or isinstance(weight, DTensor):
            return plain(input, weight, bias)
        product = torch.matmul(input, weight.t())
        return product.add_(bias.to(product.dtype))

    return linear


def _added_mask(mask: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """A mask in the form that fused kernels need: one per head, added to the products."""
    whole = mask.expand(*query.shape[:3], key.shape[2])
    if whole.dtype is not torch.bool:
        return whole
    return torch.zeros_like(whole, dtype=query.dtype).masked_fill_(whole.logical_not(), -1e9)


def _as_autocast(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor in the type autocast gives attention's inputs."""
    return tensor.to(torch.get_autocast_dtype("cpu")) if _in_autocast() else tensor


def _in_autocast() -> bool:
    return bool(torch.is_autocast_enabled("cpu"))


def _dropout(plain: Callable[..., Any]) -> Callable[..., Any]:
    def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        if not training or inplace or not 0 < p < 1:
            return plain(input, p, training, inplace) if inplace or p == 1 else input
        return torch.native_dropout(input, p, True)[0]

    return dropout


def _rms_norm(recorder: Recorder) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """RMS norm as one kernel forward and one backward, as on a GPU; the host composes it of several."""

    class RmsNorm(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, shape: list[int], weight: Any, eps: float | None) -> Any:
            out, rstd = recorder.as_one(
                torch.ops.aten._fused_rms_norm.default,
                (x, shape, weight, eps),
                lambda: (
                    torch.empty_like(x),
                    x.new_empty((*x.shape[: -len(shape)], *[1] * len(shape)), dtype=torch.float32),
                ),
            )
            ctx.save_for_backward(x, weight, rstd)
            ctx.shape = shape
            return out

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            x, weight, rstd = ctx.saved_tensors
            needs_grad = [ctx.needs_input_grad[0], ctx.needs_input_grad[2]]
            gradients = torch.ops.aten._fused_rms_norm_backward(
                grad, x, ctx.shape, rstd, weight, needs_grad
            )
            return gradients[0], None, gradients[1], None

    of_gpus = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
    keeps_rms_norm = "aten::rms_norm" in of_gpus  # from PyTorch 2.12 on

    def make(plain: Callable[..., Any]) -> Callable[..., Any]:
        def rms_norm(
            input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None
        ) -> Any:
            if not isinstance(input, FakeTensor) or (
                weight is not None and type(weight) is DTensor
            ):
                return plain(input, normalized_shape, weight, eps)
            if _in_autocast() and keeps_rms_norm:  # in single precision, as all norms
                input, weight = input.float(), None if weight is None else weight.float()
            return RmsNorm.apply(input, list(normalized_shape), weight, eps)

        return rms_norm

    return make
