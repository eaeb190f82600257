"""Calls of operators: the one reader of recorded arguments, and Operation, the work of a call.

Recorders write an operator's arguments as texts: `inputs_shapes`, `inputs_types`, `inputs_strides` and
`inputs_values`, where a tensor is `[tensor, storage, offset, elements, element bytes, device]`. Anybody may
have written them, so what is missing, or has a form that no tensor has, counts as unknown and is never an
error.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from chakrakit.operators.element_types import find_type

_ELEMENT = re.compile(r"Tensor\(((?:nullptr \()?[^()]*)\)")
UNTYPED_LIST = "TensorList"
"""Kineto's type of a list of tensors, of which it writes neither shapes nor element types."""
_NOTHING = "nullptr"
_HOST = "cpu"
LARGEST = 1 << 62
"""Sums and differences of two numbers up to this still fit into 64 bits; larger ones are damage."""
_NESTED = 8
"""How deep lists of tensors are looked into; PyTorch's have two levels."""


# --- texts ----------------------------------------------------------------------------------------


def json_value(text: str | None) -> Any:
    """A JSON text decoded; None where it is empty, not JSON, or nested too deeply to be real."""
    if not text:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _lenient(text)


def _lenient(text: str) -> Any:
    """The same for texts with NaN or Infinity, which PyTorch writes although JSON does not have them."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def json_list(text: str | None) -> list[Any]:
    """The list in a JSON text; [] for anything else."""
    parsed = json_value(text)
    return parsed if isinstance(parsed, list) else []


# --- tensors among recorded values ------------------------------------------------------------------


class RecordedTensor(NamedTuple):
    """A tensor as PyTorch's observer writes it among the values of a call."""

    tensor: int
    storage: int
    offset: int
    elements: int
    width: int
    """Bytes of an element."""
    device: str

    @property
    def bytes(self) -> int:
        """Bytes of its elements."""
        return self.elements * self.width

    def extent(self, shape: Any, strides: Any) -> int:
        """Bytes from the storage's beginning to the tensor's last element; an expanded tensor is small."""
        elements = self.elements
        if _whole_numbers(shape) and _whole_numbers(strides) and 0 < len(shape) == len(strides):
            last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if n > 1)
            elements = min(elements, last + 1) if 0 <= last < elements else max(elements, last + 1)
        return (self.offset + elements) * self.width


def is_recorded_tensor(value: Any) -> bool:
    """Whether a value has the form of a tensor: five whole numbers and a device."""
    return (
        isinstance(value, list)
        and len(value) == 6
        and isinstance(value[5], str)
        and _whole_numbers(value[:5])
    )


def recorded_tensor(value: Any) -> RecordedTensor | None:
    """A recorded value as a tensor; None where it cannot be one.

    This is the one rule: five whole numbers within 62 bits and a device; offset, elements and their
    size are not below 0, and its bytes are within 62 bits as well.
    """
    return _within_bounds(RecordedTensor(*value)) if is_recorded_tensor(value) else None


def _within_bounds(tensor: RecordedTensor) -> RecordedTensor | None:
    counts = (tensor.offset, tensor.elements, tensor.width)
    if min(counts) < 0 or max(map(abs, tensor[:5])) > LARGEST:
        return None
    return tensor if (tensor.offset + tensor.elements) * tensor.width <= LARGEST else None


Mention = tuple[RecordedTensor, Any, Any]
"""A tensor with its recorded shape and strides, or [] where the recording has none."""


def mentioned_tensors(
    values: Any, shapes: Any = (), strides: Any = (), nested: int = _NESTED
) -> Iterator[Mention]:
    """Every tensor among recorded values, lists of tensors opened, in their order."""
    if not isinstance(values, (list, tuple)) or nested < 0:
        return
    if is_recorded_tensor(values):
        tensor = _within_bounds(RecordedTensor(*values))
        if tensor is not None:
            yield tensor, shapes, strides
        return
    for i, value in enumerate(values):
        if isinstance(value, list):
            yield from mentioned_tensors(value, _at(shapes, i), _at(strides, i), nested - 1)


_WHOLE = frozenset({int})


def _whole_numbers(values: Any) -> bool:
    return isinstance(values, list) and _WHOLE.issuperset(map(type, values))


def _at(values: Any, index: int) -> Any:
    return values[index] if isinstance(values, list) and index < len(values) else []


# --- calls ------------------------------------------------------------------------------------------


class Operand(NamedTuple):
    """A tensor of a call; `storage` is -1, and `strides` None, where the recording does not have it."""

    shape: tuple[int, ...]
    each: int
    """Bytes of an element."""
    dtype: str = ""
    strides: tuple[int, ...] | None = None
    storage: int = -1
    on_host: bool = False

    @property
    def elements(self) -> int:
        """How many elements the program sees in it."""
        return math.prod(self.shape)

    @property
    def touched(self) -> int:
        """Bytes of it in memory: a dimension of stride 0 repeats the same ones."""
        if self.strides is None or len(self.strides) != len(self.shape):
            return self.elements * self.each
        stored_sizes = [n for n, s in zip(self.shape, self.strides, strict=True) if s]
        return math.prod(stored_sizes) * self.each if self.elements else 0

    @property
    def run(self) -> int:
        """Bytes that lie next to each other, in the order in which the program counts the elements."""
        if self.strides is None or len(self.strides) != len(self.shape):
            return self.elements * self.each
        length = 1
        for n, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if n != 1 and stride != length:
                break
            length *= n
        return length * self.each

    @property
    def contiguous(self) -> bool:
        """Whether its elements lie in memory in the order in which the program counts them."""
        return self.run >= self.elements * self.each

    @property
    def dense(self) -> bool:
        """Whether it fills its memory without gaps or repetition, in whatever order."""
        if self.strides is None or len(self.strides) != len(self.shape):
            return True
        length = 1
        for stride, n in sorted(zip(self.strides, self.shape, strict=True)):
            if n != 1 and stride != length:
                return False
            length *= n
        return True


Argument = Operand | list[Operand] | None
"""A tensor, a list of tensors, or None for anything else."""


class Call(NamedTuple):
    """One call of an operator, its arguments in the order of its schema."""

    name: str
    inputs: list[Argument]
    values: Sequence[Any] = ()
    outputs: Sequence[Operand] = ()
    kernels: tuple[str, ...] = ()
    """Names of the kernels it launched, where a recording knows them."""
    computes_in: str = ""
    """The element type that it computes in, where a trace says it: whether products of fp32 may round to TF32
    is a setting of the program, which neither types nor recordings show."""

    @property
    def short(self) -> str:
        """`mm` of `aten::mm`; `add` also of `aten::add_`."""
        return short_name(self.name)

    @property
    def in_place(self) -> bool:
        """Whether the first tensor is written to."""
        return is_in_place(self.name)

    @property
    def tensors(self) -> list[Operand]:
        """All tensors among the inputs, lists opened."""
        return _opened(self.inputs)

    def tensor(self, index: int) -> Operand | None:
        """The tensor at a place, or None."""
        argument = self.inputs[index] if index < len(self.inputs) else None
        return argument if isinstance(argument, Operand) else None

    def listed(self, index: int) -> list[Operand]:
        """The list of tensors at a place, or an empty one."""
        argument = self.inputs[index] if index < len(self.inputs) else None
        return argument if isinstance(argument, list) else []

    def value(self, index: int) -> Any:
        """A plain argument, or None."""
        return self.values[index] if index < len(self.values) else None

    def number(self, index: int, default: int = 0) -> int:
        """A whole number among the plain arguments, or the default."""
        value = self.value(index)
        return value if type(value) is int else default

    def numbers(self, index: int) -> list[int]:
        """A list of whole numbers among the plain arguments; [] where there is none."""
        value = self.value(index)
        return [v for v in value if type(v) is int] if isinstance(value, list) else []

    def flag(self, index: int) -> bool:
        """Whether a plain argument is true; recordings also write 1 for it."""
        return self.value(index) in (True, 1)


def short_name(name: str) -> str:
    """`mm` of `aten::mm`; `add` also of `aten::add_`."""
    name = name.partition("::")[2] or name
    return name[:-1] if is_in_place(name) else name


def is_in_place(name: str) -> bool:
    """Whether an operator writes to its first tensor: PyTorch ends such names in one underscore."""
    return name.endswith("_") and not name.endswith("__")


class ArgumentTexts(NamedTuple):
    """The recorded texts of one side of a call."""

    shapes: str = ""
    types: str = ""
    strides: str = ""
    values: str = ""


def read_call(
    name: str,
    shapes: str,
    types: str,
    strides: str = "",
    values: str = "",
    outputs: ArgumentTexts | None = None,
    kernels: tuple[str, ...] = (),
    computes_in: str = "",
) -> Call:
    """A call from the texts of a row.

    Tensors on the host are kept only where the whole call is on the host; beside tensors of a device they
    are numbers that a kernel is passed.
    """
    recorded_values = [_plain(value) for value in json_list(values)]
    inputs = _arguments(ArgumentTexts(shapes, types, strides), recorded_values)
    results = _opened(_arguments(outputs, json_list(outputs.values))) if outputs else []
    if any(not t.on_host for t in (*_opened(inputs), *results)):
        inputs = [_without_host(argument) for argument in inputs]
        results = [t for t in results if not t.on_host]
    return Call(name, inputs, recorded_values, results, kernels, computes_in)


def _plain(value: Any) -> Any:
    """An argument; Kineto writes numbers, lists and truths as texts of what Python prints."""
    if not isinstance(value, str):
        return value
    written = (
        _TRUTH.sub(lambda word: word[0].lower(), value) if value.startswith(_TRUTHS) else value
    )
    parsed = json_value(written)
    return value if parsed is None else parsed


_TRUTHS = ("True", "False", "[True", "[False")
_TRUTH = re.compile("True|False")


def _opened(arguments: Sequence[Argument]) -> list[Operand]:
    out: list[Operand] = []
    for argument in arguments:
        out += argument if isinstance(argument, list) else [argument] if argument else []
    return out


def _without_host(argument: Argument) -> Argument:
    if isinstance(argument, list):
        return [t for t in argument if not t.on_host]
    return None if argument is None or argument.on_host else argument


def _arguments(texts: ArgumentTexts, recorded_values: list[Any]) -> list[Argument]:
    """One argument per shape; a shape for which no type is recorded has the first one's type."""
    shapes, steps = json_list(texts.shapes), json_list(texts.strides)
    kinds = [kind if isinstance(kind, str) else "" for kind in json_list(texts.types)]
    kinds += [kinds[0] if kinds and shape else "" for shape in shapes[len(kinds) :]]
    return [
        _argument(shape, kind, _at(steps, i), _at(recorded_values, i))
        for i, (shape, kind) in enumerate(zip(shapes, kinds, strict=False))
    ]


def _argument(shape: Any, kind: str, strides: Any, recorded_value: Any) -> Argument:
    names = _elements(kind)
    if kind.startswith("GenericList") or (_nested(shape) and names):
        if not names or not isinstance(shape, list):
            return None
        names = names if len(names) == len(shape) else names[:1] * len(shape)
        items = (
            _operand(item_shape, name, _at(strides, i), _at(recorded_value, i))
            for i, (item_shape, name) in enumerate(zip(shape, names, strict=True))
        )
        return [item for item in items if item is not None]
    return _operand(shape, names[0], strides, recorded_value) if names else None


def recorded_types(types: str) -> list[str]:
    """The element types of all tensors of a call, as the text of its types names them."""
    kinds = (kind for kind in json_list(types) if isinstance(kind, str))
    return [name for kind in kinds for name in _elements(kind)]


def _elements(kind: str) -> list[str]:
    """The element types that a type's text names: the observer's `Tensor(float)`, or Kineto's bare `float`.

    The observer's `Int` and `Bool` are numbers.
    """
    bare = kind[:1].islower() and find_type(kind) is not None
    return _ELEMENT.findall(kind) or ([kind] if bare else [])


def _operand(shape: Any, name: str, strides: Any, recorded_value: Any) -> Operand | None:
    """A tensor from its shape and type; `recorded_value` is its entry among the recorded values."""
    if name.startswith(_NOTHING) or not _whole_numbers(shape) or min(shape, default=0) < 0:
        return None
    steps = tuple(strides) if _whole_numbers(strides) and len(strides) == len(shape) else None
    tensor = recorded_tensor(recorded_value)
    element, recorded = find_type(name), tensor.width if tensor else 4
    width = recorded if element is None else element.bytes_of(1)
    storage = tensor.storage if tensor else -1
    on_host = tensor is not None and tensor.device.startswith(_HOST)
    return Operand(tuple(shape), width, name, steps, storage, on_host)


def _nested(shape: Any) -> bool:
    return isinstance(shape, list) and bool(shape) and all(isinstance(s, list) for s in shape)


# Operation: a class of work and its size, in the terms that profiles are made in.


class Operation(NamedTuple):
    """A class of work and its size.

    `kind` is the class that people and passes name (`gemm`, `attention`, `elementwise`); `table` the
    finer one that a profile may have measured (`gemm.fp32.nt`, `embedding`), asked first. `shape` is what
    the table is keyed by, or nothing. `flops` are those of product units, `vector_ops` all others.
    """

    kind: str
    shape: tuple[int, ...]
    flops: float
    bytes: float
    table: str = ""
    vector_ops: float = 0.0


Measure = Callable[[Call], Operation | None]
"""Gives the class, size and bytes of a call; None where its tensors are unknown. The table adds FLOPs."""
Count = Callable[[Call], int]
"""Gives the floating-point operations of a call; 0 where its tensors are unknown."""
