"""Results whose size PyTorch reads from data: sizes that are known otherwise, or that the user declared."""

from __future__ import annotations

from typing import Any

import torch

from chakrakit.sources.capture.observing.real_values import RealValues

_aten = torch.ops.aten
_MASKS = (torch.bool, torch.uint8)
_CTC = (_aten._ctc_loss.Tensor, _aten._ctc_loss.default)
_CTC_BACKWARD = (_aten._ctc_loss_backward.Tensor, _aten._ctc_loss_backward.default)


def selected(func: Any, args: Any, count: int) -> Any:
    """What an operator gives that finds or selects `count` elements or places; None for all others."""
    if func is _aten.index.Tensor:
        return func(args[0], [place for index in args[1] for place in _places(index, count)])
    if func is _aten.nonzero.default:
        return args[0].new_empty((count, args[0].dim()), dtype=torch.int64)
    if func is _aten.masked_select.default:
        return args[0].new_empty((count,))
    if func is _aten._unique2.default:
        each = args[0].new_empty(args[0].shape, dtype=torch.int64)
        return args[0].new_empty((count,)), each, each.new_empty((count,))
    return None


def _places(index: torch.Tensor | None, count: int) -> list[torch.Tensor | None]:
    if index is None or index.dtype not in _MASKS:
        return [index]
    return [index.new_empty((count,), dtype=torch.int64) for _ in range(index.dim())]


def ctc_loss(func: Any, args: Any, real_values: RealValues) -> Any:
    """What the CTC loss and its gradient are; None for all other operators, or if no length is known.

    It keeps two states for each label of the longest target, and one more, at every time of every sequence.
    """
    if func in _CTC_BACKWARD:
        return torch.empty_like(args[1])
    if func not in _CTC:
        return None
    log_probs, targets, _, lengths = args[:4]
    longest = _longest(lengths, real_values)
    if longest is None and targets.dim() == 2:
        longest = targets.shape[1]
    if longest is None:
        return None
    times, batch = log_probs.shape[:2]
    return log_probs.new_empty((batch,)), log_probs.new_empty((batch, times, 2 * longest + 1))


def _longest(lengths: Any, real_values: RealValues) -> int | None:
    if isinstance(lengths, torch.Tensor):
        value = real_values.get(lengths)
        return None if value is None else max(value.tolist())
    return max(lengths)
