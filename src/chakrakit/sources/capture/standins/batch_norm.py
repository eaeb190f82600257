"""SyncBatchNorm, whose operators exist only on GPUs: PyTorch's own code, with shapes for results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

from chakrakit.sources.capture.recording import Patches


def install(patches: Patches) -> None:
    """Let synchronised normalisation run on the host."""
    _shapes()
    patches.wrap(torch.nn.SyncBatchNorm, "forward", _on_host)


def _on_host(plain: Callable[..., Any]) -> Callable[..., Any]:
    def forward(module: torch.nn.SyncBatchNorm, input: torch.Tensor) -> Any:
        with _admitted():
            return plain(module, input)

    return forward


@contextmanager
def _admitted() -> Iterator[None]:
    """Make SyncBatchNorm accept the host as a device, and skip its search for ranks with empty batches.

    The search needs values. PyTorch skips it while a graph is captured, so it is made to see one.
    """
    patches = Patches()
    patches.wrap(torch._C, "_get_privateuse1_backend_name", _host_for_norms)
    patches.set(torch.cuda, "is_current_stream_capturing", lambda: True)
    try:
        yield
    finally:
        patches.undo()


def _host_for_norms(plain: Callable[[], str]) -> Callable[[], str]:
    """The name of the device that has no other, as the module asks for it; fake tensors ask as well."""

    def name() -> str:
        return "cpu" if sys._getframe(1).f_code.co_filename.endswith(_ASKING) else plain()

    return name


_ASKING = "nn/modules/batchnorm.py"


@cache
def _shapes() -> torch.library.Library:
    """Register the shapes of the operators' results, which PyTorch lacks, until the process ends."""
    library = torch.library.Library("aten", "IMPL", "Meta")
    for name, meta in (
        ("batch_norm_stats", lambda x, eps: (_channels(x), _channels(x))),
        ("batch_norm_gather_stats_with_counts", lambda x, *_: (_channels(x), _channels(x))),
        ("batch_norm_elemt", lambda x, *_: torch.empty_like(x)),
        ("batch_norm_backward_reduce", _reduced),
        ("batch_norm_backward_elemt", lambda grad, x, *_: torch.empty_like(x)),
    ):
        library.impl(name, meta)
    return library


def _reduced(grad: Any, x: Any, mean: Any, invstd: Any, weight: Any, *outputs: bool) -> Any:
    both, of_weight, of_bias = outputs
    sums = (_channels(x), _channels(x)) if both else (None, None)
    kind = {} if weight is None else {"dtype": weight.dtype}
    return (
        *sums,
        _channels(x, **kind) if of_weight else None,
        _channels(x, **kind) if of_bias else None,
    )


def _channels(x: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """One value per channel; statistics of half precision are kept in single."""
    single = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    return torch.empty(x.shape[1], dtype=dtype or single, device=x.device)
