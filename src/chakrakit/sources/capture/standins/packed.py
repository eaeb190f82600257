"""Sequences of unlike lengths, packed and padded.

PyTorch's code reads the lengths from memory, which fake tensors lack; being the host's, they are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from chakrakit.sources.capture.observing import Recorder
from chakrakit.sources.capture.recording import NeedsValue, Patches, script_line

_PACK = torch.ops.aten._pack_padded_sequence.default


def install(patches: Patches, recorder: Recorder) -> None:
    """Replace what `pack_padded_sequence` and `pad_packed_sequence` call."""
    for owner in (torch._VF, torch):
        patches.wrap(owner, "_pack_padded_sequence", _pack(recorder))
        patches.wrap(owner, "_pad_packed_sequence", _pad(recorder))


def _known(recorder: Recorder, numbers: torch.Tensor) -> list[int]:
    """The values of lengths or sizes of batches."""
    value = recorder.real_values.get(numbers)
    if value is None:
        raise NeedsValue(
            f"{script_line()}: the lengths of sequences are not known; make them on the host, "
            "where PyTorch wants them, from data and not from results of the device"
        )
    return [int(n) for n in value.tolist()]


def _runs(sizes: list[int]) -> Iterator[tuple[int, int, int, int]]:
    """Steps with equally many sequences: the first one and how many, their sequences, their first row."""
    step = row = 0
    for size, steps in groupby(sizes):
        count = len(list(steps))
        yield step, count, size, row
        step, row = step + count, row + count * size


def _pack(recorder: Recorder) -> Callable[[Any], Callable[..., Any]]:
    class Pack(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, count: int, batch_first: bool, sizes: list[int]) -> Any:
            ctx.like, ctx.batch_first, ctx.sizes = x.shape, batch_first, sizes
            with _disable_current_modes():
                lengths, steps = (x.new_empty(n, dtype=torch.int64) for n in (count, len(sizes)))
            make = lambda: (x.new_empty((sum(sizes), *x.shape[2:])), steps)  # noqa: E731
            return recorder.as_one(_PACK, (x, lengths, batch_first), make)[0]

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            out = grad.new_zeros(ctx.like)
            steps = out.transpose(0, 1) if ctx.batch_first else out
            for step, count, size, row in _runs(ctx.sizes):
                rows = grad[row : row + count * size]
                steps[step : step + count, :size].copy_(rows.view(count, size, *grad.shape[1:]))
            return out, None, None, None

    def make(plain: Callable[..., Any]) -> Callable[..., Any]:
        def pack(x: Any, lengths: Any, batch_first: bool = False) -> Any:
            if not isinstance(x, FakeTensor):
                return plain(x, lengths, batch_first)
            known = _known(recorder, lengths)
            sizes = [sum(n > step for n in known) for step in range(max(known))]
            return Pack.apply(x, len(known), batch_first, sizes), torch.tensor(sizes)

        return pack

    return make


def _pad(recorder: Recorder) -> Callable[[Any], Callable[..., Any]]:
    def make(plain: Callable[..., Any]) -> Callable[..., Any]:
        def pad(
            data: Any, batch_sizes: Any, batch_first: bool, value: float, total: int = -1
        ) -> Any:
            if not isinstance(data, FakeTensor):
                return plain(data, batch_sizes, batch_first, value, total)
            sizes = _known(recorder, batch_sizes)
            shape = (max(total, len(sizes)), sizes[0], *data.shape[1:])
            out = torch.full(shape, value, dtype=data.dtype, device=data.device)
            for step, count, size, row in _runs(sizes):
                rows = data[row : row + count * size].view(count, size, *data.shape[1:])
                out[step : step + count, :size].copy_(rows)
            lengths = [sum(size > place for size in sizes) for place in range(sizes[0])]
            padded = out.transpose(0, 1) if batch_first else out
            return padded, torch.tensor(lengths)

        return pad

    return make
