"""Checkpoints that a script saves and loads again: nothing is written where it says.

What `torch.save` was given is kept as mail, tensors as their shapes (those whose values the host knows with
them), so that `torch.load` of the same path gives it back, also to ranks that run later.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from chakrakit.sources.capture.observing import RealValues
from chakrakit.sources.capture.recording import Patches
from chakrakit.sources.capture.standins.distributed import Mail


@dataclass(frozen=True)
class SavedTensor:
    """A tensor of a checkpoint; `values` are its bytes where they are known.

    Not the tensor itself, which pickle would write by `torch.save`.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: str
    values: bytes | None


def install(patches: Patches, mail: Mail, real_values: RealValues) -> None:
    """Keep what is saved, give it back where it is loaded, and let scripts remove it."""

    def saving(_: Callable[..., Any]) -> Callable[..., Any]:
        def save(saved: Any, file: Any, *__: Any, **___: Any) -> None:
            patches.note("torch.save")
            if name := _name(file):
                described = _described(saved, real_values)
                with _disable_current_modes():
                    mail.put(name, described)

        return save

    def loading(plain: Callable[..., Any]) -> Callable[..., Any]:
        def load(file: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
            name = _name(file)
            if name not in mail.names() or Path(file).exists():
                return plain(file, map_location, *args, **kwargs)
            with _disable_current_modes():
                saved = mail.get(name)
            is_tensor = lambda value: isinstance(value, SavedTensor)  # noqa: E731
            return pytree.tree_map(
                lambda value: _tensor(value, map_location) if is_tensor(value) else value,
                saved,
                is_leaf=is_tensor,
            )

        return load

    def removing(plain: Callable[..., Any]) -> Callable[..., Any]:
        def remove(path: Any, *args: Any, **kwargs: Any) -> Any:
            if _name(path) not in mail.names() or os.path.lexists(path):
                return plain(path, *args, **kwargs)
            return None  # ranks that run later may still load it

        return remove

    patches.wrap(torch, "save", saving)
    patches.wrap(torch, "load", loading)
    for name in ("remove", "unlink"):
        patches.wrap(os, name, removing)


def _name(path: Any) -> str:
    """The name of what is saved under a path; empty for a file that is open already."""
    return f"saved:{Path(path).absolute()}" if isinstance(path, str | os.PathLike) else ""


def _described(saved: Any, real_values: RealValues) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda t: _description(t, real_values), saved)


def _description(tensor: torch.Tensor, real_values: RealValues) -> SavedTensor:
    real = real_values.get(tensor) if tensor.device.type == "cpu" else None
    return SavedTensor(tuple(tensor.shape), tensor.dtype, str(tensor.device), _bytes(real))


def _bytes(real: torch.Tensor | None) -> bytes | None:
    if real is None or not real.numel():
        return None
    with _disable_current_modes():
        flat = real.detach().contiguous().reshape(-1).view(torch.uint8)
        return bytes(torch.Tensor.numpy(flat).tobytes())


def _tensor(saved: SavedTensor, map_location: Any) -> torch.Tensor:
    """A tensor like the one that was saved, where the script wants it."""
    if saved.values is not None:
        return torch.frombuffer(bytearray(saved.values), dtype=saved.dtype).reshape(saved.shape)
    device = saved.device
    if isinstance(map_location, dict):
        device = map_location.get(device, device)
    elif map_location is not None and not callable(map_location):
        device = map_location
    return torch.empty(saved.shape, dtype=saved.dtype, device=device)
