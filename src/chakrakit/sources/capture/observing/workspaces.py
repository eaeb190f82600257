"""Workspaces: memory that an operator takes on a GPU of NVIDIA's while it runs, beside its results.

The rule for sums over rows follows PyTorch's launch and gave what seven shapes held on an H200 (PyTorch 2.11,
cuDNN 9.19) to half a per cent. Those for attention's gradient and for convolutions of 16-bit images were made
from the same measurements and tried on no others; one convolution there held 24.8 MiB where the rule says
16.8. Convolutions in single precision are not counted.
"""

from __future__ import annotations

import math
from typing import Any

import torch

_SINGLE = 4
_HALF = (torch.float16, torch.bfloat16)
_aten = torch.ops.aten
_SUM = _aten.sum.dim_IntList
_ATTENTION_BACKWARD = _aten._scaled_dot_product_cudnn_attention_backward.default
_CONVOLUTION, _CONVOLUTION_BACKWARD = (
    _aten.convolution.default,
    _aten.convolution_backward.default,
)
_CHANNELS = 8
"""Channels of 16-bit images come in multiples of this for tensor cores."""


def workspace(func: Any, args: Any, out: Any, multiprocessors: int) -> int:
    """Bytes that an operator holds while it runs and that nothing has afterwards."""
    if func is _SUM:
        return of_sum(args[0], out, multiprocessors)
    if func is _ATTENTION_BACKWARD:
        return of_attention_backward(args[1], args[2])
    if func is _CONVOLUTION:
        return of_convolution(args[0], args[1], out, args[-1])
    if func is _CONVOLUTION_BACKWARD:
        return of_convolution(args[1], args[2], args[0], args[-2])
    return 0


def of_sum(x: torch.Tensor, out: torch.Tensor, multiprocessors: int) -> int:
    """What partial sums take that the blocks of PyTorch's reduction exchange.

    The figures are those of its launch (`setReduceConfig` in ATen/native/cuda/Reduce.cuh): 512 threads in
    all, warps of 32, four results per thread where that divides them, 16 to 256 values for each thread.
    """
    columns = out.numel()
    if not columns or not x.is_contiguous() or x.shape[-1:].numel() != columns or x.dim() < 2:
        return 0
    rows = x.numel() // columns
    each = 4 if columns % 4 == 0 else 2 if columns % 2 == 0 else 1
    threads = 512 // each
    along = min(_power_of_two(columns // each), threads)
    width = min(along, 32)
    height = min(_power_of_two(rows), threads // width)
    width = min(along, threads // height)
    if rows < min(16 * height, 256):
        return 0
    values = -(-rows // height)
    grid = -(-(columns // each) // width)
    wanted = multiprocessors * (2048 // (width * height))
    if values < 256 or grid > wanted:
        return 0
    blocks = max(min(-(-wanted // grid), -(-values // 16)), -(-values // 256))
    wide = max(_SINGLE, x.element_size())
    return wide * columns * blocks * width * each if blocks > 1 else 0


def of_attention_backward(query: torch.Tensor, key: torch.Tensor) -> int:
    """The gradient of queries in single precision, a number per row, and keys and values of every head."""
    rows = math.prod(query.shape[:-1])
    every_head = 2 * query.shape[1] * (key.numel() // key.shape[1]) * key.element_size()
    shared = key.shape[1] != query.shape[1]
    return int(query.numel() * _SINGLE + rows * _SINGLE + (every_head if shared else 0))


def of_convolution(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, groups: int) -> int:
    """Copies of 16-bit images with their channels last, filled up to what tensor cores take."""
    if x.dtype not in _HALF or groups != 1 or x.dim() != 4 or math.prod(weight.shape[2:]) == 1:
        return 0
    last = x.is_contiguous(memory_format=torch.channels_last)
    return sum(
        t.numel() // t.shape[1] * -(-t.shape[1] // _CHANNELS) * _CHANNELS * t.element_size()
        for t in (x, weight, out)
        if not last or t.shape[1] % _CHANNELS
    )


def _power_of_two(number: int) -> int:
    """The largest power of two that is not greater."""
    return 1 << (max(number, 1).bit_length() - 1)
