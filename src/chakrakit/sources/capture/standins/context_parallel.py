"""Context parallelism: what a rank uses next of what all ranks gathered, and what it passes on.

PyTorch cuts the whole into one piece per rank at every turn of the ring and takes one of them, and asks every
rank who it is before it passes something on: both grow with the square of the ring.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional

from chakrakit.sources.capture.observing import Recorder, view
from chakrakit.sources.capture.recording import Patches

_HOMES = ("_context_parallel._attention", "_attention")
"""Modules below `torch.distributed.tensor.experimental`: from PyTorch 2.10 on, and before."""
_SPLIT, _SLICE = torch.ops.aten.split.Tensor, torch.ops.aten.slice.Tensor


def install(patches: Patches, recorder: Recorder) -> None:
    """Record the cut as PyTorch makes it, and make only the piece that is used; pass on without asking."""

    def next_buffer(self: Any) -> Any:
        whole = self._aggregated_buffer = home._maybe_wait(self._aggregated_buffer)
        members = dist.get_world_size(self._pg)
        each = -(-whole.shape[0] // members)
        start = range(members)[dist.get_rank(self._pg) - self._idx] * each
        piece = (whole, 0, start, start + each)
        return recorder.as_one(_SPLIT, (whole, each), lambda: [view(_SLICE, piece, {})])[0]

    patches.wrap(functional, "permute_tensor", _permute)
    home = _home()
    if home is not None:
        patches.set(home._AllGatherRotater, "next_buffer", next_buffer)


def _permute(plain: Callable[..., Any]) -> Callable[..., Any]:
    """An all-to-all in which every rank of a group sends all it has to one other."""

    def permute_tensor(tensor: Any, receivers: list[int], group: Any, tag: str = "") -> Any:
        if not isinstance(group, dist.ProcessGroup):
            return plain(tensor, receivers, group, tag)
        mine, sent, received = dist.get_rank(group), [0] * group.size(), [0] * group.size()
        sent[receivers[mine]] = received[receivers.index(mine)] = tensor.numel()
        return functional.all_to_all_single(tensor, received, sent, group, tag)

    return permute_tensor


def _home() -> Any:
    """The module of ring attention; None where a PyTorch has it elsewhere."""
    for name in _HOMES:
        try:
            module = import_module(f"torch.distributed.tensor.experimental.{name}")
        except ImportError:
            continue
        if hasattr(module, "_AllGatherRotater"):
            return module
    return None
