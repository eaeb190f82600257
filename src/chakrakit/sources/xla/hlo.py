"""An HLO module in memory, whatever form it was read from: computations of instructions, in order."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

from chakrakit.operators import TYPES

BITS = {t.hlo: t.bits for t in TYPES if t.hlo} | {"token": 0, "opaque": 0}
"""Bits of one element by XLA's name of its type."""


@dataclass(frozen=True)
class Shape:
    """An array (`dtype`, `dims`) or a tuple of shapes (`parts`)."""

    dtype: str = ""
    dims: tuple[int, ...] = ()
    parts: tuple[Shape, ...] = ()
    is_tuple: bool = False

    @property
    def elements(self) -> int:
        """Elements of the array, or of all parts."""
        return sum(p.elements for p in self.parts) if self.is_tuple else math.prod(self.dims)

    @property
    def bytes(self) -> int:
        """Bytes, without padding to a device's tiles."""
        if self.is_tuple:
            return sum(p.bytes for p in self.parts)
        return -(-math.prod(self.dims) * BITS.get(self.dtype, 0) // 8)

    @property
    def first(self) -> Shape:
        """The array, or the first one inside."""
        return self.parts[0].first if self.is_tuple and self.parts else self

    def __str__(self) -> str:
        if self.is_tuple:
            return f"({', '.join(map(str, self.parts))})"
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


@dataclass(eq=False)
class Instruction:
    """One instruction. What an opcode does not have is left empty."""

    name: str
    opcode: str
    shape: Shape
    operands: tuple[str, ...] = ()
    _: KW_ONLY
    called: tuple[str, ...] = ()
    """Names of computations it calls; of a loop its condition and its body."""
    op_name: str = ""
    """Where in the program it came from, as `jit(f)/transpose(jvp())/dot_general`."""
    channel: int = -1
    groups: tuple[tuple[int, ...], ...] = ()
    """Replica groups; () for all devices together."""
    pairs: tuple[tuple[int, int], ...] = ()
    """Sources and targets of a permutation."""
    contracting: tuple[int, ...] = ()
    """Dimensions of the left operand that a dot sums over."""
    kernel_features: int = -1
    """Dimension of a convolution's kernel that counts output features."""
    parameter: int = -1
    index: int = -1
    """Part of the tuple that get-tuple-element takes."""
    target: str = ""
    """What a custom call calls."""
    after: tuple[str, ...] = ()
    """Instructions that must have run before, besides the operands."""
    backend: str = ""
    """The back end's own configuration, as text."""


@dataclass(eq=False)
class Computation:
    """Instructions in the order they run in, where the module is scheduled."""

    name: str
    instructions: list[Instruction] = field(default_factory=list)
    root: str = ""

    def by_name(self) -> dict[str, Instruction]:
        """Instructions by name."""
        return {i.name: i for i in self.instructions}


@dataclass(eq=False)
class Module:
    """A program for every device of a mesh."""

    name: str
    computations: Mapping[str, Computation]
    entry: str
    devices: int = 1
    is_scheduled: bool = False
    allocated: int = 0
    """Bytes of all buffers that XLA assigned, where the file says so."""

    @property
    def main(self) -> Computation:
        """The entry computation."""
        return self.computations[self.entry]
