"""Views of fake tensors, made without the general machinery: half of all operators are views.

The general way hashes every argument to look results up in a cache, which for a view costs several times
what making it does.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager

_aten = torch.ops.aten
VIEWS = frozenset(
    (
        _aten.view.default,
        _aten.t.default,
        _aten.transpose.int,
        _aten._unsafe_view.default,
        _aten.as_strided.default,
        _aten.unsqueeze.default,
        _aten.squeeze.dim,
        _aten.expand.default,
        _aten.detach.default,
        _aten.slice.Tensor,
        _aten.permute.default,
        _aten.select.int,
    )
)
"""Operators with one tensor, whose result is a view of it with the same device."""
DEVICE = torch.ops.prim.device.default


def fits(args: Any) -> bool:
    """Whether the tensor is fake, with plain sizes and no constant value."""
    tensor = args[0]
    return (
        type(tensor) is FakeTensor
        and tensor.constant is None
        and tensor.fake_mode.shape_env is None
    )


def view(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The view, as the fake-tensor mode would make it."""
    tensor = args[0]
    mode = tensor.fake_mode
    with in_kernel_invocation_manager(mode):
        made = func(*args, **kwargs)
    return FakeTensor(mode, made, tensor.fake_device)
