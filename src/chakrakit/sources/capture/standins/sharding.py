"""FSDP's shards, made only when used: FSDP cuts a parameter into one piece per rank and keeps one piece.

DTensor's trying out of global shapes happens outside of the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.fsdp import FullyShardedDataParallel, _flat_param, _init_utils
from torch.distributed.fsdp._fully_shard import _fsdp_common, _fsdp_param
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.utils._python_dispatch import _disable_current_modes

from chakrakit.sources.capture.recording import Patches


class Chunks:
    """`torch.chunk`, padded with empty pieces, each made when it is asked for."""

    def __init__(self, tensor: torch.Tensor, count: int, dim: int = 0) -> None:
        self._tensor, self._count, self._dim = tensor, count, dim
        self._each = max(-(-tensor.size(dim) // count), 1)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> torch.Tensor:
        start = range(self._count)[index] * self._each
        size = min(self._each, self._tensor.size(self._dim) - start)
        if size <= 0 and self._tensor.size(self._dim):
            return self._tensor.new_empty(0)
        return self._tensor.narrow(
            self._dim, min(start, self._tensor.size(self._dim)), max(size, 0)
        )


def install(patches: Patches) -> None:
    """Let FSDP2 use `Chunks`, and FSDP1 run on the host."""

    def chunks(tensor: torch.Tensor, num_chunks: int, dim: int) -> Any:
        return Chunks(tensor, num_chunks, dim)

    for owner in (_fsdp_common, _fsdp_param):
        patches.set(owner, "_chunk_with_empty", chunks)
    patches.wrap(ShardingPropagator, "_propagate_tensor_meta_non_cached", _unobserved)
    patches.wrap(FullyShardedDataParallel, "__init__", _without_device)
    patches.set(_init_utils, "_get_compute_device", lambda *_: torch.device("cpu"))
    patches.set(_init_utils, "_check_module_states_for_sync_module_states", lambda _: None)
    patches.set(_flat_param, "_data_ptr_allocated", lambda t: t.untyped_storage().size() > 0)


def _unobserved(plain: Callable[..., Any]) -> Callable[..., Any]:
    """A function that runs operators in a fake-tensor mode of its own, to learn what they give."""

    def propagate(*args: Any) -> Any:
        with _disable_current_modes():
            return plain(*args)

    return propagate


def _without_device(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Drops `device_id`: a bare number names an accelerator, which does not exist here."""

    def init(self: Any, *args: Any, device_id: Any = None, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)

    return init
