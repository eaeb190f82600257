"""What programs keep on the host: activations, which are copied there and back, and what is not followed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.distributed import fsdp

from chakrakit.sources.capture.observing import Storages
from chakrakit.sources.capture.recording import Patches
from chakrakit.sources.capture.standins.cuda import arrived, left


def install(patches: Patches, storages: Storages) -> None:
    """Copy saved activations as PyTorch does, and say what of offloading is taken to stay on the device."""
    patches.replace(save_on_cpu, _saved_on_host(storages))
    patches.wrap(
        fsdp.CPUOffload, "__init__", _noted(patches, "FSDP's CPUOffload", "offload_params")
    )
    if hasattr(fsdp, "CPUOffloadPolicy"):
        patches.wrap(fsdp.CPUOffloadPolicy, "__init__", _noted(patches, "FSDP2's CPUOffloadPolicy"))


def _saved_on_host(storages: Storages) -> type[saved_tensors_hooks]:
    class SaveOnCpu(saved_tensors_hooks):
        """Saved tensors are copied to the host, and back where they are used."""

        def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
            def pack(tensor: torch.Tensor) -> tuple[bool, torch.Tensor]:
                if not storages.holds(tensor):
                    return False, tensor
                with torch.no_grad():
                    return True, left(storages, tensor, pinned=pin_memory)

            def unpack(packed: tuple[bool, torch.Tensor]) -> torch.Tensor:
                away, tensor = packed
                with torch.no_grad():
                    return arrived(storages, tensor) if away else tensor

            super().__init__(pack, unpack)

    return SaveOnCpu


def _noted(
    patches: Patches, name: str, asked: str = ""
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def make(plain: Callable[..., None]) -> Callable[..., None]:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            plain(self, *args, **kwargs)
            if not asked or getattr(self, asked):
                patches.warn(
                    f"{name} is not modelled: parameters, gradients and the optimizer are taken to be on the "
                    "device, without copies to and from the host"
                )

        return init

    return make
