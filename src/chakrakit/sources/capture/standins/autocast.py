"""Mixed precision for GPUs on the host that stands in for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from chakrakit.sources.capture.recording import Patches


def install(patches: Patches, gpu: bool) -> None:
    """`autocast("cuda")` and GradScaler work on the host, by a GPU's rules where one is asked for."""

    def on_host(plain: Callable[..., Any]) -> Callable[..., Any]:
        def init(
            self: Any,
            device_type: str = "cuda",
            dtype: Any = None,
            enabled: bool = True,
            cache_enabled: Any = None,
        ) -> None:
            cuda = str(device_type).startswith("cuda")
            if cuda and dtype is None:
                dtype = torch.float16
            plain(self, "cpu" if cuda else device_type, dtype, enabled, cache_enabled)

        return init

    def cuda_only(plain: Callable[..., Any]) -> Callable[..., Any]:
        def init(
            self: Any, enabled: bool = True, dtype: Any = torch.float16, cache_enabled: bool = True
        ) -> None:
            torch.amp.autocast.__init__(self, "cuda", dtype, enabled, cache_enabled)

        return init

    def scaler(plain: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, device: Any = "cpu", *args: Any, **kwargs: Any) -> None:
            if not isinstance(device, str):  # torch.cuda.amp's has no device
                args, device = (device, *args), "cpu"
            plain(self, "cpu", *args, **kwargs)

        return init

    patches.wrap(torch.amp.autocast, "__init__", on_host)
    patches.wrap(torch.cuda.amp.autocast, "__init__", cuda_only)
    patches.wrap(torch.amp.GradScaler, "__init__", scaler)
    patches.wrap(
        torch.cuda.amp.GradScaler,
        "__init__",
        lambda _: lambda self, *a, **k: torch.amp.GradScaler.__init__(self, "cpu", *a, **k),
    )
