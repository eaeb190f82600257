"""Values that scripts read: real ones from the host, placeholders or declared ones from the device.

`loss.item()` gives a number that can be printed, formatted and calculated with; comparing it, or asking
whether a tensor is true, is a decision that needs a declared value.
"""

from __future__ import annotations

import copy
import dis
import linecache
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from chakrakit.sources.capture.observing import KnownValues, RealValues
from chakrakit.sources.capture.recording import NeedsValue, Patches, asking_line, script_line

_OURS = str(Path(__file__).parents[1])
_INITIALISATION = "torch/nn/init.py"
_DISTRIBUTIONS, _GENERATION = "torch/distributions/", "transformers/generation/"
_MASKS = "transformers/masking_utils.py"
_MINIMISATION = "torch/optim/lbfgs.py"
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

    def _is_below(self, other: object) -> bool:
        """Against infinity, with which searches for the best begin, every number is known."""
        if isinstance(other, float) and math.isinf(other):
            return float.__gt__(other, 0.0)
        return self._decide()

    def _is_above(self, other: object) -> bool:
        return not self._is_below(other)

    __lt__ = __le__ = _is_below
    __gt__ = __ge__ = _is_above
    __bool__ = _decide

    def __eq__(self, other: object) -> bool:
        """Whether it is itself, and is finite, is known: what writers of JSON ask."""
        if other is self:
            return True
        if isinstance(other, float) and not math.isfinite(other):
            return False
        return self._decide()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return super().__hash__()

    def __reduce__(self) -> Any:  # copied and pickled with checkpoints and metrics
        return Placeholder, (float.__float__(self), self.line)


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


_REMAINDERS = {i for i, (_, sign) in enumerate(dis._nb_ops) if sign in ("%", "%=")}  # type: ignore[attr-defined]


def _is_formatted(frame: FrameType) -> bool:
    """Whether the instruction that runs is `%`: of texts it only writes numbers, as `"%d" % count` does."""
    code, at = frame.f_code.co_code, frame.f_lasti
    return dis.opname[code[at]] == "BINARY_OP" and code[at + 1] in _REMAINDERS


class WholePlaceholder:
    """A whole number that was not computed: it can be printed and calculated with, and decides nothing.

    It is no `int`, so that PyTorch and Python cannot use it as a size, an index or a count unnoticed.
    """

    def __init__(self, line: str) -> None:
        self.line = line

    def _decide(self, *_: object) -> Any:
        Placeholder(1.0, self.line)._decide()

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _decide
    __bool__ = __index__ = _decide

    def __int__(self) -> int:
        return 1 if _is_formatted(sys._getframe(1)) else int(self._decide())

    def __hash__(self) -> int:
        return hash(self.line)

    def __float__(self) -> float:
        return 1.0

    def __format__(self, spec: str) -> str:
        return format(1, spec)

    def __repr__(self) -> str:
        return "1"

    def _same(self, *_: Any) -> WholePlaceholder:
        return WholePlaceholder(self.line)

    def _arithmetic(self, other: Any) -> Any:
        whole = isinstance(other, (int, WholePlaceholder))
        return self._same() if whole else Placeholder(1.0, self.line)

    def _quotient(self, _: Any) -> Placeholder:
        return Placeholder(1.0, self.line)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _arithmetic
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = _arithmetic
    __truediv__ = __rtruediv__ = _quotient
    __neg__ = __pos__ = __abs__ = __round__ = _same


class ValueReaders:
    """Replaces the ways a tensor's value is read.

    Values that the host knows (`RealValues`) are real. Of the others, `declared` maps `file.py:line` (or
    `line`) of the reading line to a value; those that follow from what is known of every element
    (`KnownValues`) are exact, and the rest are placeholders.
    """

    def __init__(
        self,
        patches: Patches,
        known_values: KnownValues,
        real_values: RealValues,
        declared: Mapping[str, float],
    ) -> None:
        self.patches, self.declared = patches, declared
        self.known_values, self.real_values = known_values, real_values
        self._losses = 0

    def install(self) -> None:
        """Replace the ways a tensor's value is read."""
        for name, unknown in (
            ("item", self.value),
            ("tolist", lambda t: _nested(self.value(t), list(t.shape))),
            ("numpy", self._array),
            ("__bool__", lambda t: bool(self.decisive(t))),
            ("__int__", lambda t: int(self.decisive(t))),
            ("__index__", lambda t: int(self.decisive(t))),
            ("__float__", self._float),
            ("__format__", self._format),
            ("__repr__", lambda t, **_: _text(t)),
        ):
            self._read_by(name, unknown)
        self.patches.wrap(torch.Tensor, "__deepcopy__", _copied_for_real)
        self.patches.wrap(torch, "set_rng_state", self._with_real)
        self.patches.wrap(torch.random, "set_rng_state", self._with_real)
        self.patches.set(torch, "Generator", self._generator())

    def _read_by(self, name: str, unknown: Callable[..., Any]) -> None:
        """Read real values in PyTorch's way, and others by `unknown`."""

        def make(plain: Any) -> Any:
            def read(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
                real = self._real(tensor)
                if real is None:
                    return unknown(tensor, *args, **kwargs)
                with _disable_current_modes():
                    return plain(real, *args, **kwargs)

            return read

        self.patches.wrap(torch.Tensor, name, make)
        if name in FakeTensor.__dict__:  # which reads its elements one by one
            self.patches.set(FakeTensor, name, getattr(torch.Tensor, name))

    def _with_real(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(state: torch.Tensor, *args: Any) -> Any:
            real = self._real(state)
            return None if real is None else plain(real, *args)

        return call

    def _generator(self) -> type[torch.Generator]:
        """Generators that can be given a state which is known, though it was on the device."""
        real = self._real

        class Generator(torch._C.Generator):
            def __new__(cls, device: Any = "cpu") -> Generator:
                return super().__new__(cls)  # on the host, which stands in for every device

            def __init__(self, device: Any = "cpu") -> None:
                super().__init__()
                self._asked = torch.device("cuda" if type(device) is int else device)

            @property
            def device(self) -> torch.device:
                return self._asked

            def set_state(self, state: torch.Tensor) -> Generator:
                known = real(state)
                return self if known is None else super().set_state(known)

        return Generator

    def _real(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The real tensor: itself, or what a fake one is known to hold."""
        local = getattr(tensor, "_local_tensor", tensor)
        local = getattr(local, "elem", local)  # what a functional collective has not waited for
        if not isinstance(local, FakeTensor):
            return tensor
        return self.real_values.get(local)

    def _array(self, tensor: torch.Tensor, *_: Any, **__: Any) -> Any:
        import numpy as np

        kind = str(tensor.dtype).removeprefix("torch.").replace("bfloat16", "float32")
        value = self._known(tensor)
        if value is None:
            self.patches.warn(f"{script_line()}: the values of a tensor are placeholders (1)")
        return np.full(tuple(tensor.shape), 1 if value is None else value, kind)

    def _format(self, tensor: torch.Tensor, spec: str) -> str:
        return format(self.value(tensor), spec) if spec else _text(tensor)

    def value(self, tensor: torch.Tensor) -> Any:
        """A fake tensor's value: known, declared, or a placeholder with a warning."""
        value = self._known(tensor)
        return self._placeholder(tensor) if value is None else value

    def decisive(self, tensor: torch.Tensor) -> Any:
        """A value that decides what happens next: known, declared, or an error."""
        real = self._real(tensor)
        if real is not None:
            with _disable_current_modes():
                return torch._C.TensorBase.item(real)
        value = self._known(tensor)
        if value is not None:
            return value
        if is_accepted():
            return False
        asking = _asking()
        if _DISTRIBUTIONS in asking:
            return True  # whether arguments are valid, as those of a program that runs are
        if _MASKS in asking:
            self.patches.warn("a mask of padding whose values are not known leaves nothing out")
            return True
        if _MINIMISATION in asking and (decision := self._not_yet_minimal(tensor)) is not None:
            return decision
        if _GENERATION in asking:
            self.patches.warn("generate: no sequence ends before the greatest length")
            longest = (
                tensor.dtype is not torch.bool and _asking_frame().f_code.co_name == "_beam_search"
            )
            return sys.maxsize if longest else False
        raise NeedsValue(_needs(tensor, self.real_values.line_of(_local(tensor))))

    def _float(self, tensor: torch.Tensor) -> float:
        """A number of Python; losses that LBFGS compares fall by more than it takes for nothing."""
        if self._known(tensor) is None and _MINIMISATION in _asking():
            self._losses += 1
            return 1 / self._losses
        return float.__float__(float(self.value(tensor)))

    def _not_yet_minimal(self, tensor: torch.Tensor) -> float | None:
        """What LBFGS decides where it has not converged; None where it searches along a line.

        A curvature `ys` above zero is remembered, every other condition of its step ends the step, and
        numbers are lengths along directions.
        """
        frame = _asking_frame()
        if frame.f_code.co_name != "step":
            return None
        if tensor.dtype is not torch.bool:
            return 1.0
        self.patches.warn("LBFGS: no step converges before its greatest number of iterations")
        return (
            linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip().startswith("if ys")
        )

    def _known(self, tensor: torch.Tensor) -> Any:
        tensor = _local(tensor)
        constant = getattr(tensor, "constant", None)
        if constant is not None and constant.numel() == 1:
            with _disable_current_modes():
                return torch._C.TensorBase.item(constant)
        of_every_element = self.known_values.get(tensor)
        if of_every_element is not None:
            return bool(of_every_element) if tensor.dtype is torch.bool else of_every_element
        return self._declared(tensor)

    def declared_here(self) -> float | None:
        """The value that is declared for the script's line."""
        line = script_line()
        number = line.partition(":")[2]
        return self.declared.get(line, self.declared.get(number))

    def _declared(self, tensor: torch.Tensor) -> Any:
        value = self.declared_here()
        if value is None:
            return None
        if tensor.dtype is torch.bool:
            return bool(value)
        return value if tensor.dtype.is_floating_point else int(value)

    def _placeholder(self, tensor: torch.Tensor) -> Any:
        line = script_line()
        if not _in_library():
            self.patches.warn(f"{line}: the value of a tensor is a placeholder (1)")
        if tensor.dtype.is_floating_point:
            return Placeholder(1.0, line)
        if tensor.dtype is torch.bool:
            raise NeedsValue(_needs(tensor, self.real_values.line_of(_local(tensor))))
        return WholePlaceholder(line)


def _copied_for_real(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Copies real tensors, such as the constants that fake ones hold, to real ones, and fake to fake."""

    def deepcopy(tensor: torch.Tensor, memo: dict[int, Any]) -> Any:
        if isinstance(tensor, FakeTensor) and tensor.is_leaf:
            return memo[id(tensor)] if id(tensor) in memo else _copied(tensor, memo)
        if type(tensor) is not torch.Tensor:
            return plain(tensor, memo)
        with _disable_current_modes():
            return plain(tensor, memo)

    return deepcopy


def _copied(tensor: FakeTensor, memo: dict[int, Any]) -> torch.Tensor:
    """A copy of a fake tensor: PyTorch's way copies its memory, of which there is none."""
    with torch.no_grad():
        copied = memo[id(tensor)] = tensor.clone()
    copied.requires_grad_(tensor.requires_grad)
    if tensor.grad is not None:
        copied.grad = copy.deepcopy(tensor.grad, memo)
    for name, value in tensor.__dict__.items():
        if name not in copied.__dict__:
            copied.__dict__[name] = copy.deepcopy(value, memo)
    return copied


def _needs(tensor: torch.Tensor, maker: str) -> str:
    """What a script that decides by an unknown value is told."""
    line = script_line()
    whole = "reads whether a tensor is true" if tensor.dtype is torch.bool else "reads a number"
    made = f", which {maker} made," if maker and maker != line else ""
    return (
        f"{asking_line()}: the script {whole} from the device{made} and decides by it, and the device "
        f"computes nothing; declare it with --value {line}=NUMBER"
    )


def _local(tensor: torch.Tensor) -> torch.Tensor:
    local: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return local


def _in_library() -> bool:
    """Whether PyTorch's own code asked: optimizers and scalers read values that only they use."""
    frame = sys._getframe(3)
    for _ in range(6):
        if any(part in frame.f_code.co_filename for part in _TRUSTED):
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False


def is_accepted() -> bool:
    """Whether an initialisation asks which numbers it must draw again: none, where nothing is drawn."""
    frame: Any = sys._getframe(2)
    for _ in range(4):
        if frame is None:
            return False
        if frame.f_code.co_filename.endswith(_INITIALISATION):
            return True
        frame = frame.f_back
    return False


def _asking() -> str:
    """The file of the code that asks for a value, ours aside."""
    return _asking_frame().f_code.co_filename


def _asking_frame() -> FrameType:
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_OURS) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _nested(value: Any, shape: list[int]) -> Any:
    return value if not shape else [_nested(value, shape[1:]) for _ in range(shape[0])]


def _text(tensor: torch.Tensor) -> str:
    return f"tensor(..., size={tuple(tensor.shape)}, dtype={tensor.dtype})"
