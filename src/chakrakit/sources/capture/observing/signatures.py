"""Signatures: an operator's shapes, types and strides as texts, and the work that follows from them."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import torch

from chakrakit.operators import (
    TYPES,
    Call,
    Cost,
    Operand,
    cost_of,
    is_host_copy,
    operator_of,
    rounding_of,
)
from chakrakit.sources.capture.recording import Signature

_TYPES = {getattr(torch, t.torch): t for t in TYPES if hasattr(torch, t.torch or "?")}
"""Element types by PyTorch's own objects, as far as this PyTorch has them."""


class Signatures:
    """Distinct signatures, numbered as they come."""

    def __init__(self) -> None:
        self.listed: list[Signature] = []
        self._numbers: dict[Any, int] = {}
        self._names: dict[Any, str] = {}
        self._settings: dict[Any, str] = {}

    def number(self, func: Any, args: Any, kwargs: Any, out: Any, name: str = "") -> int:
        """The number of a call's signature; a new one is added."""
        tensors: list[torch.Tensor] = []
        rounds = self._rounds(func, name)
        key = (
            func,
            name,
            rounds,
            _key(args, tensors),
            _key(kwargs, tensors) if kwargs else None,
            _key(out, []),
        )
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.listed)
            signature = self._make(name or self.name(func), args, kwargs, out, func)
            if rounds and signature.dtype == "fp32":
                signature = msgspec.structs.replace(signature, dtype="tf32")
            self.listed.append(signature)
        return number

    def _rounds(self, func: Any, name: str) -> bool:
        """Whether PyTorch's settings let a call of an operator compute fp32 in TF32 now."""
        setting = self._settings.get(func)
        if setting is None:
            setting = self._settings[func] = rounding_of(name or self.name(func))
        return bool(setting) and _precision(setting) not in ("none", "ieee")

    def name(self, func: Any) -> str:
        """`aten::mm` of `aten.mm.default`."""
        name = self._names.get(func)
        if name is None:
            name = self._names[func] = (
                str(func._schema.name) if hasattr(func, "_schema") else str(func)
            )
        return name

    def _make(self, name: str, args: Any, kwargs: Any, out: Any, func: Any) -> Signature:
        arguments = _positional(func, args, kwargs)
        results = list(out) if isinstance(out, tuple) else [out]
        inputs, outputs = [_shape(a) for a in arguments], [_shape(r) for r in results]
        values = [_value(a) for a in arguments]
        operator = operator_of(name)
        still = not operator.touches_memory or _is_view(func, args)
        result_operands = [t for r in results for t in _tensors(_operand(r))]
        if is_host_copy(name):  # elements change their type before they cross
            cost = Cost(bytes=sum(t.touched for t in result_operands))
        elif still:
            cost = Cost()
        else:
            cost = cost_of(Call(name, [_operand(a) for a in arguments], values, result_operands))
        return Signature(
            name=name,
            inputs_shapes=_text(inputs),
            inputs_types=_text([_type(a) for a in arguments]),
            inputs_strides=_text([_stride(a) for a in arguments]),
            outputs_shapes=_text(outputs),
            outputs_types=_text([_type(r) for r in results]),
            outputs_strides=_text([_stride(r) for r in results]),
            inputs_values=_text(values),
            flops=cost.flops,
            vector_ops=cost.vector_ops,
            moved=cost.bytes,
            dtype=_dtype(arguments, results),
            op_type=operator.op_type,
            is_host=still,
        )


def _precision(setting: str) -> str:
    """What a program set for fp32 in `matmul`, `conv` or `rnn` of a GPU, by any of PyTorch's names for it."""
    return str(torch._C._get_fp32_precision_getter("cuda", setting))


def _key(value: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return (value.shape, value.stride(), value.dtype)
    if isinstance(value, (list, tuple)):
        if value and type(value[0]) is int and type(value[-1]) is int:
            return tuple(value)
        return tuple([_key(v, tensors) for v in value])
    if isinstance(value, dict):
        return tuple([(k, _key(v, tensors)) for k, v in value.items()])
    return value if isinstance(value, (int, float, str, bool, type(None))) else str(type(value))


def _positional(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """Arguments in the order of the schema, with defaults for those between that were not given."""
    schema = getattr(func, "_schema", None)
    positional = list(args)
    if schema is None:
        return [*positional, *kwargs.values()]
    for argument in schema.arguments[len(positional) :]:
        positional.append(kwargs.get(argument.name, argument.default_value))
    return positional


def _shape(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return list(value.shape)
    if isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
        return [_shape(v) for v in value]
    return []


def _stride(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return list(value.stride())
    if isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
        return [_stride(v) for v in value]
    return []


def _type(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        element = _TYPES.get(value.dtype)
        return f"Tensor({value.dtype if element is None else element.cpp})"
    if isinstance(value, (list, tuple)):
        return f"GenericList[{','.join(_type(v) for v in value)}]"
    names = {bool: "Bool", int: "Int", float: "Double", str: "String", type(None): "None"}
    return names.get(type(value), "Object")


def _value(value: Any) -> Any:
    if isinstance(value, (bool, int, str)) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (list, tuple)):
        return [] if any(isinstance(v, torch.Tensor) for v in value) else [_value(v) for v in value]
    return "<Tensor>" if isinstance(value, torch.Tensor) else f"<{type(value).__name__}>"


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _operand(value: Any) -> Operand | list[Operand] | None:
    """An argument as the table of operators takes it."""
    if isinstance(value, torch.Tensor):
        element = _TYPES.get(value.dtype)
        name = str(value.dtype) if element is None else element.cpp
        return Operand(tuple(value.shape), value.element_size(), name, tuple(value.stride()))
    if isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
        return [t for v in value for t in _tensors(_operand(v))]
    return None


def _tensors(operand: Operand | list[Operand] | None) -> list[Operand]:
    return operand if isinstance(operand, list) else [] if operand is None else [operand]


def _is_view(func: Any, args: Any) -> bool:
    """Whether the schema says that results alias arguments and nothing is written."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return False
    aliased = [r.alias_info for r in schema.returns if r.alias_info is not None]
    return bool(aliased) and not any(a.is_write for a in aliased)


def _dtype(arguments: list[Any], results: list[Any]) -> str:
    for value in (*results, *arguments):
        first = value[0] if isinstance(value, (list, tuple)) and value else value
        if isinstance(first, torch.Tensor):
            element = _TYPES.get(first.dtype)
            return str(first.dtype).removeprefix("torch.") if element is None else element.name
    return ""
