"""Results of operators on fake tensors, made without the general machinery.

The general way hashes every argument to look results up in a cache, which for a view (half of all operators)
costs several times what making it does, and for the rest as much as everything else.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager

from chakrakit.operators import by_elements

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
SPLITS = frozenset((_aten.split.Tensor, _aten.split_with_sizes.default, _aten.unbind.int))
"""Operators with one tensor, whose results are views of it with the same device."""
MADE = frozenset(
    (
        _aten.empty.memory_format,
        _aten.empty_strided.default,
        _aten.zeros.default,
        _aten.ones.default,
    )
)
"""Operators that make a tensor of a given size."""
LIFT = _aten.lift_fresh.default
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
WAIT = torch.ops._c10d_functional.wait_tensor.default
_HOST = torch.device("cpu")
DEVICE = torch.ops.prim.device.default
_ATTRIBUTES = "_chakra_attributes"
"""Where a mode keeps the attributes of its new tensors, by device."""
_make_subclass = torch.Tensor._make_subclass
_throw_on_data_ptr = torch._C._set_throw_on_mutable_data_ptr


def fits(args: Any) -> bool:
    """Whether the tensor is fake, with plain sizes and no constant value."""
    tensor = args[0]
    return (
        type(tensor) is FakeTensor
        and tensor.constant is None
        and tensor.fake_mode.shape_env is None
    )


def fake(mode: FakeTensorMode, meta: torch.Tensor, device: torch.device) -> Any:
    """A fake tensor with the attributes that every new one of its mode and device has.

    Its own constructor sets some twenty of them one by one, which takes a fifth of a capture.
    """
    attributes = mode.__dict__.setdefault(_ATTRIBUTES, {})
    same = attributes.get(device)
    if same is None:
        tensor = FakeTensor(mode, meta, device)
        attributes[device] = dict(vars(tensor))
        return tensor
    tensor = _make_subclass(
        FakeTensor, meta, meta.requires_grad, dispatch_device=True, device_for_backend_keys=device
    )
    _throw_on_data_ptr(tensor)
    tensor.__dict__ = same.copy()
    return tensor


def view(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The view of a fake tensor, as the fake-tensor mode would make it."""
    tensor = args[0]
    mode = tensor.fake_mode
    with in_kernel_invocation_manager(mode):
        meta = func(*args, **kwargs)
    return fake(mode, meta, tensor.fake_device)


def split(func: Any, args: Any, kwargs: dict[str, Any]) -> list[Any]:
    """The views that a fake tensor is split into."""
    tensor = args[0]
    with in_kernel_invocation_manager(tensor.fake_mode):
        metas = func(*args, **kwargs)
    return [fake(tensor.fake_mode, meta, tensor.fake_device) for meta in metas]


def made(func: Any, args: Any, kwargs: dict[str, Any], mode: FakeTensorMode) -> Any:
    """A fake tensor of the size asked for, on the host."""
    with in_kernel_invocation_manager(mode):
        meta = func(*args, **{**kwargs, "device": "meta"})
    return fake(mode, meta, _HOST)


def lifted(tensor: torch.Tensor, mode: FakeTensorMode) -> Any:
    """A fake tensor for a number that the script wrote as a tensor; it is a constant until changed."""
    with in_kernel_invocation_manager(mode):
        meta = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    fake = FakeTensor(mode, meta, _HOST, constant=tensor)
    mode.fake_tensor_converter.add_constant_storage_mapping(fake)
    return fake


def is_number(tensor: Any) -> bool:
    """Whether a tensor is a plain one of the host with a single element."""
    return type(tensor) is torch.Tensor and tensor.numel() == 1 and tensor.device == _HOST


class Results:
    """Results of functional operators by operator and arguments: sizes, strides and types of earlier ones.

    Only for operators that alias and change nothing, on fake tensors with nothing special about them.
    """

    def __init__(self) -> None:
        self._functional: dict[Any, bool] = {}
        self._by_elements: dict[Any, bool] = {}
        self._forms: dict[Any, tuple[Any, list[Any]]] = {}

    def run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """The operator's result, in the general way the first time."""
        if func in IN_PLACE and _all_alike(args):
            return args[0]
        if func is WAIT and fits(args):
            return view(_aten.detach.default, args, kwargs)
        if self._is_by_elements(func) and _lists_alike(args):
            return None if func._schema.name.endswith("_") else [_like(t) for t in _lists(args)[0]]
        functional = self._functional.get(func)
        if functional is None:
            functional = self._functional[func] = _is_functional(func)
        tensors: list[FakeTensor] = []
        key = (func, _key(args, tensors), _key(kwargs, tensors)) if functional else None
        if key is None or key[1] is None or key[2] is None or not tensors:
            return func(*args, **kwargs)
        earlier = self._forms.get(key)
        if earlier is None:
            out = func(*args, **kwargs)
            several = type(out) if isinstance(out, (tuple, list)) else None
            forms = [_described(t) for t in (out if several else (out,))]
            if _OTHER not in forms:
                self._forms[key] = (several, forms)
            return out
        results = self._like_earlier(earlier[1], tensors[0].fake_mode)
        return earlier[0](results) if earlier[0] else results[0]

    def _is_by_elements(self, func: Any) -> bool:
        known = self._by_elements.get(func)
        if known is None:
            name = str(getattr(getattr(func, "_schema", None), "name", ""))
            known = self._by_elements[func] = name.startswith("aten::_foreach") and by_elements(
                name
            )
        return known

    def _like_earlier(self, forms: list[Any], mode: FakeTensorMode) -> list[Any]:
        """New results with the forms of earlier ones; numbers are the same ones."""
        with torch._C._DisableTorchDispatch():
            empty = [
                torch.empty_strided(*m[:2], dtype=m[2], device="meta")
                if isinstance(m, tuple)
                else m
                for m in forms
            ]
        return [
            fake(mode, e, m[3]) if isinstance(m, tuple) else m
            for e, m in zip(empty, forms, strict=True)
        ]


_Form = tuple[tuple[int, ...], tuple[int, ...], torch.dtype, torch.device]
_PLAIN = (
    *(int, float, bool, str, type(None)),
    *(torch.dtype, torch.layout, torch.memory_format, torch.device),
)


def _all_alike(args: Any) -> bool:
    """Whether all tensors are plain ones of one size and device: nothing to check or to expand."""
    first = args[0]
    return all(
        fits((t,))
        and t.shape == first.shape
        and (t.dtype == first.dtype or (t.is_floating_point() and first.is_floating_point()))
        and t.fake_device == first.fake_device
        for t in args
        if isinstance(t, torch.Tensor)
    )


def _lists(args: Any) -> list[Any]:
    """The lists of tensors among arguments; a number may stand before them, as the base of a power."""
    return [
        a for a in args if isinstance(a, (list, tuple)) and a and isinstance(a[0], torch.Tensor)
    ]


def _lists_alike(args: Any) -> bool:
    """Whether all lists hold plain contiguous fractions of the same sizes and types, in this order."""
    lists = _lists(args)
    if not lists or isinstance(args[-1], torch.Tensor):
        return False
    return len({len(tensors) for tensors in lists}) == 1 and all(
        fits((t,))
        and t.shape == first.shape
        and t.dtype == first.dtype
        and t.is_floating_point()
        and t.is_contiguous()
        for tensors in lists
        for first, t in zip(lists[0], tensors, strict=True)
    )


def _like(tensor: FakeTensor) -> Any:
    """A new contiguous tensor of the same size and type."""
    with in_kernel_invocation_manager(tensor.fake_mode):
        meta = torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
    return fake(tensor.fake_mode, meta, tensor.fake_device)


_SPACES = ("aten::", "_c10d_functional::")
"""Operators of these change nothing unless their schema says so."""
_OTHER = "another kind of result"
_RETURNED = ("Tensor", "int", "SymInt")


def _is_functional(func: Any) -> bool:
    """Whether an operator changes none of its arguments and gives new tensors, and perhaps whole numbers."""
    schema = getattr(func, "_schema", None)
    if schema is None or not schema.name.startswith(_SPACES):
        return False
    tags = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output, torch.Tag.inplace_view)
    if any(tag in func.tags for tag in tags) or not schema.returns:
        return False
    tensors = all(str(r.type) in _RETURNED for r in schema.returns)
    return tensors and not any(a.alias_info for a in (*schema.arguments, *schema.returns))


def _key(value: Any, tensors: list[FakeTensor]) -> Any:
    """What a result depends on, as a key; None if an argument's type is not supported."""
    if isinstance(value, torch.Tensor):
        if not fits((value,)) or value.layout is not torch.strided:
            return None
        tensors.append(value)
        return (value.shape, value.stride(), value.dtype, value.fake_device)
    if isinstance(value, (list, tuple)):
        if value and type(value[0]) is int and type(value[-1]) is int:
            return ("numbers", *value)
        keys = tuple([_key(v, tensors) for v in value])
        return None if None in keys and None not in value else keys
    if isinstance(value, dict):
        return _key(tuple(value.items()), tensors)
    return (type(value), value) if isinstance(value, _PLAIN) else None


def _described(tensor: Any) -> _Form | int | str | None:
    """Sizes, strides, type and device of a result that fills its storage alone, a number; else `_OTHER`."""
    if tensor is None or type(tensor) is int:
        return tensor
    if type(tensor) is not FakeTensor or not fits((tensor,)) or tensor.layout is not torch.strided:
        return _OTHER
    dense = tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()
    if tensor.storage_offset() or tensor.is_complex() or not dense:
        return _OTHER
    return tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, tensor.fake_device
