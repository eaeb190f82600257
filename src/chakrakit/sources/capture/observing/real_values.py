"""RealValues: what tensors really hold, wherever that follows from the host alone.

Only the accelerator is fake. A program that draws a seed, shuffles indices, measures lengths or makes a
mask on the host, and looks at it, sees what it would see in a run: beside each fake tensor whose value is
known stands a real one, on which every operator is run as well. What comes off the device has no value;
whole numbers and truths that were copied there (tokens, masks, lengths) keep theirs.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

from chakrakit.sources.capture.observing.communication import tensors
from chakrakit.sources.capture.recording import Patches, script_line

MOST_ELEMENTS = 1 << 22
"""Elements of a tensor on the host that is computed: 16 MiB in single precision, 2,048 x 2,048."""
MOST_ON_DEVICE = 1 << 16
"""Elements of a tensor on the device whose value is followed: the tokens of a micro-batch of 16 x 4,096."""
MOST_FRACTIONS = 1 << 10
"""Elements of fractions that keep their values on the device: boxes, times, weights of classes, not data."""
MOST_WORK = 1 << 27
"""Elements computed by one rank in all: about a second of drawing normal numbers, the slowest fill."""
_FLOPS_PER_ELEMENT = 32
"""Operations of a matrix product that take as long as one drawn number, on one core of a current host."""
_SHOWN = 1 << 12
"""Elements of the largest tensor for which the line that made it is kept: what a script reads is small."""
_VALUE, _LINE = "_chakra_value", "_chakra_line"
_aten = torch.ops.aten
_PRODUCTS = (
    _aten.mm,
    _aten.addmm,
    _aten.bmm,
    _aten.baddbmm,
    _aten.convolution,
    _aten.dot,
    _aten.mv,
)
_GATHERS = ("_allgather_base_", "allgather_")
_ALL_TO_ALL = "alltoall_base_"
_STORAGES = (torch.UntypedStorage, torch.TypedStorage)
_SPACES = ("c10d", "_c10d_functional", "_c10d_functional_autograd", "fsdp", "symm_mem")


class OperatorCall(NamedTuple):
    """An operator with what it was given and what came out; `changed` are arguments that it writes to."""

    func: Any
    args: Any
    kwargs: Any
    out: Any
    changed: Sequence[torch.Tensor] = ()


class RealValues:
    """Keeps a fake tensor's real one in its own attributes; a tensor that is not fake is its own value."""

    def __init__(self, patches: Patches) -> None:
        self.patches = patches
        self._work = 0
        self._stale: dict[int, Any] = {}
        self._random: dict[Any, bool] = {}

    def get(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The real tensor, if its elements are known."""
        held = tensor.__dict__.get(_VALUE) if isinstance(tensor, FakeTensor) else _Held(tensor)
        value: torch.Tensor | None = None if held is None else held.value
        if value is None or (self._stale and value.untyped_storage()._cdata in self._stale):
            return None
        if value.shape != tensor.shape:
            return None  # `tensor.data` was set to another one
        return value

    def give(self, tensor: torch.Tensor, value: torch.Tensor | None) -> None:
        """Let a tensor have the value of another one; None for none."""
        if not isinstance(tensor, FakeTensor):
            return
        if value is None:
            tensor.__dict__.pop(_VALUE, None)
        else:
            tensor.__dict__[_VALUE] = _Held(value)

    @staticmethod
    def lacks(inputs: list[torch.Tensor]) -> bool:
        """Whether one of these tensors has no value."""
        return any(_VALUE not in t.__dict__ and isinstance(t, FakeTensor) for t in inputs)

    def line_of(self, tensor: torch.Tensor) -> str:
        """The script's line that made a tensor without a value; "" where it was not kept."""
        return str(tensor.__dict__.get(_LINE, ""))

    # --- following operators --------------------------------------------------------------------

    def follow(self, call: OperatorCall, on_device: bool) -> None:
        """Run the operator on the real tensors too, or note that its results have no value."""
        real = self._computed(call, on_device)
        if real is _UNKNOWN:
            self.forget(call.out, call.changed)
            return
        for fake, value in zip(tensors(call.out), tensors(real), strict=False):
            self.give(fake, value if fake.shape == value.shape else None)

    def exchange(self, name: str, args: Any) -> bool:
        """Give what a collective that copies whole numbers receives, if every rank sends what this one does.

        Sizes, states of random numbers and indices are exchanged so. Returns whether values are known.
        """
        if name == "broadcast_":
            return not self.lacks(tensors(args[0]))
        if name not in (*_GATHERS, _ALL_TO_ALL) or (name == _ALL_TO_ALL and any(args[3:5])):
            return False
        sent = tensors(args[1])
        if len(sent) != 1 or sent[0].is_floating_point() or sent[0].numel() > MOST_ON_DEVICE:
            return False
        value = self.get(sent[0])
        if value is None:
            return False
        if name == _ALL_TO_ALL:
            group = dist.ProcessGroup.unbox(args[2])
            with _disable_current_modes():
                value = value.reshape(-1).chunk(group.size())[group.rank()]
        for tensor in tensors(args[0]):
            with _disable_current_modes():
                copies = tensor.numel() // max(value.numel(), 1)
                self.give(tensor, value.reshape(-1).repeat(copies).reshape(tensor.shape))
        self.patches.note("whole numbers that ranks tell each other: those of the captured rank")
        return True

    def compute(self, func: Any, args: Any, kwargs: Any) -> Any:
        """What an operator gives for the real values; None if one is not known."""
        values = _replaced((args, kwargs), self.get)
        return None if values is _UNKNOWN else self._run(func, *values)

    def places(self, indices: Any) -> list[Any] | None:
        """The places that masks select, for masks whose values are known; None if those of one are not."""
        out: list[Any] = []
        for index in indices:
            if index is None or index.dtype not in (torch.bool, torch.uint8):
                out.append(index)
                continue
            mask = self.get(index)
            if mask is None:
                return None
            with _disable_current_modes():
                out += mask.nonzero(as_tuple=True)
        return out

    def to_fake(self, real: Any, mode: FakeTensorMode) -> Any:
        """Real results as fake ones that have these values."""
        if isinstance(real, (list, tuple)):
            return type(real)(self.to_fake(r, mode) for r in real)
        if not isinstance(real, torch.Tensor) or isinstance(real, FakeTensor):
            return real
        fake = mode.from_tensor(real)
        self.give(fake, real)
        return fake

    def _computed(self, call: OperatorCall, on_device: bool) -> Any:
        func, args, kwargs, out, _ = call
        inputs = tensors((args, kwargs))
        if self.lacks(inputs):
            return _UNKNOWN
        if func.namespace in _SPACES or not self._may_compute(func, inputs, out, on_device):
            return _UNKNOWN
        values = _replaced((args, kwargs), self.get)
        if values is _UNKNOWN:
            return _UNKNOWN
        try:
            return self._run(func, *values)
        except (RuntimeError, TypeError, ValueError, LookupError, ArithmeticError):
            return _UNKNOWN

    def _may_compute(
        self, func: Any, inputs: list[torch.Tensor], out: Any, on_device: bool
    ) -> bool:
        results = tensors(out)
        if any(t.device.type == "meta" for t in (*inputs, *results)):
            return False
        if torch.is_grad_enabled() and any(t.requires_grad for t in inputs):
            return False  # a model's own work, which nothing but the device does
        random = self._is_random(func)
        if on_device and random:
            return False
        largest = max((t.numel() for t in (*inputs, *results)), default=0)
        work = largest + _flops(func, inputs, results) // _FLOPS_PER_ELEMENT
        if work <= MOST_ON_DEVICE:
            return True  # what scripts decide by is small, and is known however much was computed before
        if on_device or work > MOST_ELEMENTS or self._work + work > MOST_WORK:
            if random:
                self.patches.note("random numbers on the host: more than are drawn in a capture")
            return False
        self._work += work
        return True

    def _is_random(self, func: Any) -> bool:
        random = self._random.get(func)
        if random is None:
            random = self._random[func] = torch.Tag.nondeterministic_seeded in func.tags
        return random

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        with _disable_current_modes(), torch.no_grad():
            return host_form(func)(*args, **kwargs)

    def forget(self, out: Any, changed: Sequence[torch.Tensor]) -> None:
        """Results have no value, and what was changed in place no longer has one, nor have views of it."""
        for tensor in changed:
            self._spoil(tensor)
        for tensor in tensors(out):
            if isinstance(tensor, FakeTensor):
                tensor.__dict__.pop(_VALUE, None)
                if tensor.numel() == 1 or (
                    not tensor.is_floating_point() and tensor.numel() <= _SHOWN
                ):
                    tensor.__dict__[_LINE] = script_line()

    def _spoil(self, tensor: torch.Tensor) -> None:
        value = self.get(tensor)
        if value is None:
            return
        storage = value.untyped_storage()
        key = storage._cdata
        self._stale[key] = weakref.ref(storage, lambda _: self._stale.pop(key, None))
        self.give(tensor, None)


def host_form(func: Any) -> Any:
    """The operator that does on any host what `func` does on one with a GPU: pinned memory is a copy."""
    return _aten.clone.default if func is _aten._pin_memory.default else func


class _Held:
    """A value among a tensor's attributes, which are copied with it."""

    def __init__(self, value: torch.Tensor) -> None:
        self.value = value

    def __deepcopy__(self, memo: dict[int, Any]) -> _Held:
        with _disable_current_modes():
            return _Held(self.value.clone())


class _Unknown:
    pass


_UNKNOWN: Any = _Unknown()


def _replaced(value: Any, get: Any) -> Any:
    """Arguments with every tensor replaced by its value; `_UNKNOWN` if one has none."""
    if isinstance(value, torch.Tensor):
        real = get(value)
        return _UNKNOWN if real is None else real
    if isinstance(value, _STORAGES):
        return _UNKNOWN  # a fake tensor's has a size and no memory
    if isinstance(value, (list, tuple)):
        items = [_replaced(v, get) for v in value]
        return _UNKNOWN if any(i is _UNKNOWN for i in items) else type(value)(items)
    if isinstance(value, dict):
        items = [_replaced(v, get) for v in value.values()]
        known = not any(i is _UNKNOWN for i in items)
        return dict(zip(value, items, strict=True)) if known else _UNKNOWN
    return value


def _flops(func: Any, inputs: list[torch.Tensor], results: list[torch.Tensor]) -> int:
    """Operations of a matrix product or convolution: elements of the result times those summed for each."""
    if func.overloadpacket not in _PRODUCTS or len(inputs) < 2 or not results:
        return 0
    return int(results[0].numel() * max(inputs[1].numel() // max(inputs[1].shape[-1], 1), 1))
