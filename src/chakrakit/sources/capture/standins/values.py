"""Values that fake tensors do not have: placeholders for printing, errors where they decide something.

`loss.item()` gives a number that can be printed, formatted and calculated with; comparing it, or asking
whether a tensor is true, is a decision that needs a declared value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

from chakrakit.sources.capture.observing import KnownValues
from chakrakit.sources.capture.recording import NeedsValue, Patches, script_line

_TRUSTED = ("torch/optim", "torch/amp", "torch/nn/utils", "torch/distributed")


class Placeholder(float):
    """A number that was not computed. Arithmetic gives another placeholder, a comparison an error."""

    line: str

    def __new__(cls, value: float, line: str) -> Placeholder:
        """A placeholder with this value, read at this line."""
        placeholder = super().__new__(cls, value)
        placeholder.line = line
        return placeholder

    def _decide(self, *_: object) -> bool:
        raise NeedsValue(
            f"{script_line()}: a value taken from a tensor at {self.line} decides what happens next, and "
            f"nothing was computed; declare it with --value {self.line}=NUMBER"
        )

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _decide
    __bool__ = _decide

    def __hash__(self) -> int:
        return super().__hash__()


def _arithmetic(name: str) -> Any:
    plain = getattr(float, name)

    def calculate(self: Placeholder, *operands: Any) -> Any:
        try:
            result = plain(float(self), *(float(o) for o in operands))
        except (ZeroDivisionError, OverflowError, ValueError, TypeError):
            result = 1.0
        return Placeholder(result, self.line) if isinstance(result, float) else result

    return calculate


for _name in (
    "add",
    "radd",
    "sub",
    "rsub",
    "mul",
    "rmul",
    "truediv",
    "rtruediv",
    "pow",
    "rpow",
    "neg",
    "pos",
    "abs",
    "mod",
    "rmod",
    "floordiv",
    "rfloordiv",
):
    setattr(Placeholder, f"__{_name}__", _arithmetic(f"__{_name}__"))


class Values:
    """Replaces the ways a tensor's value is read.

    `declared` maps `file.py:line` (or `line`) of the reading line to a value. Values that follow
    from what is known of every element (`KnownValues`) are exact; the rest are placeholders.
    """

    def __init__(
        self, patches: Patches, known_values: KnownValues, declared: Mapping[str, float]
    ) -> None:
        self.patches, self.known_values, self.declared = patches, known_values, declared

    def install(self) -> None:
        """Replace the ways a tensor's value is read."""
        for name in (
            "item",
            "tolist",
            "numpy",
            "__bool__",
            "__int__",
            "__float__",
            "__index__",
            "__format__",
            "__repr__",
        ):
            make = getattr(self, f"_{name.strip('_')}")
            self.patches.wrap(torch.Tensor, name, make)
            if name in FakeTensor.__dict__:  # which reads its elements one by one
                self.patches.wrap(FakeTensor, name, make)

    def _item(self, plain: Any) -> Any:
        def item(tensor: torch.Tensor) -> Any:
            return self._real(plain, tensor) if _is_real(tensor) else self.value(tensor)

        return item

    def _tolist(self, plain: Any) -> Any:
        def tolist(tensor: torch.Tensor) -> Any:
            if _is_real(tensor):
                return self._real(plain, tensor)
            value = self.value(tensor)
            return _nested(value, list(tensor.shape))

        return tolist

    def _numpy(self, plain: Any) -> Any:
        def numpy(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if _is_real(tensor):
                return self._real(plain, tensor, *args, **kwargs)
            import numpy as np

            kind = str(tensor.dtype).removeprefix("torch.").replace("bfloat16", "float32")
            return np.full(tuple(tensor.shape), float(self.value(tensor)), kind)

        return numpy

    def _bool(self, plain: Any) -> Any:
        def truth(tensor: torch.Tensor) -> bool:
            if _is_real(tensor):
                return bool(self._real(plain, tensor))
            return bool(self.value(tensor))

        return truth

    def _int(self, plain: Any) -> Any:
        def whole(tensor: torch.Tensor) -> int:
            return int(self._real(plain, tensor) if _is_real(tensor) else self.value(tensor))

        return whole

    _index = _int

    def _float(self, plain: Any) -> Any:
        def number(tensor: torch.Tensor) -> float:
            value = self._real(plain, tensor) if _is_real(tensor) else self.value(tensor)
            return (
                float(value) + 0.0 if not isinstance(value, Placeholder) else float.__float__(value)
            )

        return number

    def _format(self, plain: Any) -> Any:
        def formatted(tensor: torch.Tensor, spec: str) -> str:
            if _is_real(tensor):
                return str(self._real(plain, tensor, spec))
            return format(float.__float__(self.value(tensor)), spec) if spec else _text(tensor)

        return formatted

    def _repr(self, plain: Any) -> Any:
        def formatted(tensor: torch.Tensor, **kwargs: Any) -> str:
            return str(self._real(plain, tensor, **kwargs)) if _is_real(tensor) else _text(tensor)

        return formatted

    def _real(self, plain: Any, *args: Any, **kwargs: Any) -> Any:
        with unset_fake_temporarily():
            return plain(*args, **kwargs)

    def value(self, tensor: torch.Tensor) -> Any:
        """A fake tensor's value: known, declared, or a placeholder with a warning."""
        tensor = getattr(tensor, "_local_tensor", tensor)
        constant = getattr(tensor, "constant", None)
        if constant is not None and constant.numel() == 1:
            with unset_fake_temporarily():
                return torch._C.TensorBase.item(constant)
        of_every_element = self.known_values.get(tensor)
        if of_every_element is not None:
            return bool(of_every_element) if tensor.dtype is torch.bool else of_every_element
        line = script_line()
        for key in (line, line.partition(":")[2]):
            if key in self.declared:
                value = self.declared[key]
                return value if tensor.dtype.is_floating_point else int(value)
        return self._unknown(tensor, line)

    def _unknown(self, tensor: torch.Tensor, line: str) -> Any:
        if tensor.dtype.is_floating_point:
            if not _in_library():
                self.patches.warn(f"{line}: the value of a tensor is a placeholder (1.0)")
            return Placeholder(1.0, line)
        raise NeedsValue(
            f"{line}: the script reads {'whether' if tensor.dtype is torch.bool else 'a whole number from'} "
            f"a tensor{' is true' if tensor.dtype is torch.bool else ''}, and nothing was computed; declare "
            f"it with --value {line}=NUMBER"
        )


def _in_library() -> bool:
    """Whether PyTorch's own code asked: optimizers and scalers read values that only they use."""
    import sys

    frame = sys._getframe(3)
    for _ in range(6):
        if any(part in frame.f_code.co_filename for part in _TRUSTED):
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False


def _is_real(tensor: torch.Tensor) -> bool:
    local = getattr(tensor, "_local_tensor", tensor)
    local = getattr(local, "elem", local)  # what a functional collective has not waited for
    return not isinstance(local, FakeTensor)


def _nested(value: Any, shape: list[int]) -> Any:
    return value if not shape else [_nested(value, shape[1:]) for _ in range(shape[0])]


def _text(tensor: torch.Tensor) -> str:
    return f"tensor(..., size={tuple(tensor.shape)}, dtype={tensor.dtype})"
