"""Results of operators on fake tensors, made without the general machinery.

The general way hashes every argument to look results up in a cache, which for a view (half of all operators)
costs several times what making it does, and for the rest as much as everything else.
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
IN_PLACE = frozenset(
    (
        _aten.add_.Tensor,
        _aten.mul_.Tensor,
        _aten.lerp_.Scalar,
        _aten.addcmul_.default,
        _aten.addcdiv_.default,
        _aten.copy_.default,
        _aten.fill_.Scalar,
        _aten.zero_.default,
        _aten.uniform_.default,
        _aten.normal_.default,
    )
)
"""Operators that change their first tensor element by element and give it back."""
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
    """The view of a fake tensor, as the fake-tensor mode would make it."""
    tensor = args[0]
    mode = tensor.fake_mode
    with in_kernel_invocation_manager(mode):
        meta = func(*args, **kwargs)
    return FakeTensor(mode, meta, tensor.fake_device)


class Results:
    """Results of functional operators by operator and arguments: sizes, strides and types of earlier ones.

    Only for operators that alias and change nothing, on fake tensors with nothing special about them.
    """

    def __init__(self) -> None:
        self._functional: dict[Any, bool] = {}
        self._forms: dict[Any, tuple[bool, list[_Form]]] = {}

    def run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """The operator's result, in the general way the first time."""
        if func in IN_PLACE and _all_alike(args):
            return args[0]
        functional = self._functional.get(func)
        if functional is None:
            functional = self._functional[func] = _is_functional(func)
        tensors: list[FakeTensor] = []
        key = (func, _key(args, tensors), _key(kwargs, tensors)) if functional else None
        if key is None or key[1] is None or key[2] is None or not tensors:
            return func(*args, **kwargs)
        earlier = self._forms.get(key)
        mode = tensors[0].fake_mode
        if earlier is None:
            out = func(*args, **kwargs)
            forms = [_described(t) for t in (out if isinstance(out, tuple) else (out,))]
            if all(m is not None for m in forms):
                self._forms[key] = (isinstance(out, tuple), [m for m in forms if m is not None])
            return out
        with in_kernel_invocation_manager(mode):
            empty = [torch.empty_strided(*m[:2], dtype=m[2], device="meta") for m in earlier[1]]
        results = [FakeTensor(mode, e, m[3]) for e, m in zip(empty, earlier[1], strict=True)]
        return tuple(results) if earlier[0] else results[0]


_Form = tuple[tuple[int, ...], tuple[int, ...], torch.dtype, torch.device]
_PLAIN = (
    *(int, float, bool, str, type(None)),
    *(torch.dtype, torch.layout, torch.memory_format, torch.device),
)


def _all_alike(args: Any) -> bool:
    """Whether all tensors are plain ones of one size, type and device: nothing to check or to expand."""
    first = args[0]
    return all(
        fits((t,))
        and t.shape == first.shape
        and t.dtype == first.dtype
        and t.fake_device == first.fake_device
        for t in args
        if isinstance(t, torch.Tensor)
    )


def _is_functional(func: Any) -> bool:
    """Whether an operator of ATen changes none of its arguments and gives new tensors."""
    schema = getattr(func, "_schema", None)
    if schema is None or not schema.name.startswith("aten::"):
        return False
    tags = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output, torch.Tag.inplace_view)
    if any(tag in func.tags for tag in tags) or not schema.returns:
        return False
    tensors = all(str(r.type) == "Tensor" for r in schema.returns)
    return tensors and not any(a.alias_info for a in (*schema.arguments, *schema.returns))


def _key(value: Any, tensors: list[FakeTensor]) -> Any:
    """What a result depends on, as a key; None if an argument's type is not supported."""
    if isinstance(value, torch.Tensor):
        if not fits((value,)) or value.layout is not torch.strided:
            return None
        tensors.append(value)
        place = value.storage_offset(), value.fake_device
        return (value.shape, value.stride(), value.dtype, place)
    if isinstance(value, (list, tuple)):
        keys = tuple([_key(v, tensors) for v in value])
        return None if None in keys and None not in value else keys
    if isinstance(value, dict):
        return _key(tuple(value.items()), tensors)
    return (type(value), value) if isinstance(value, _PLAIN) else None


def _described(tensor: Any) -> _Form | None:
    """Sizes, strides, type and device of a result that alone fills its storage; None for any other."""
    if type(tensor) is not FakeTensor or not fits((tensor,)) or tensor.layout is not torch.strided:
        return None
    dense = tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()
    if tensor.storage_offset() or tensor.is_complex() or not dense:
        return None
    return tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, tensor.fake_device
