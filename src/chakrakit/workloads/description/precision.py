"""The precision of a model as its files state it: weights, activations and cache, each with its own."""

from __future__ import annotations

from math import ceil, prod

import msgspec

from chakrakit.operators import element_bytes, find_type
from chakrakit.workloads.description.parts import Part

UNQUANTIZED = ""
"""The name of the format of weights that are kept in the step's own element type."""


WHOLE_ROW = 1 << 40
"""Of a scale for each output: more inputs than any matrix has."""


class Format(Part, frozen=True, kw_only=True):
    """How a weight is kept, and in what its products are computed."""

    dtype: str
    """Element type of the weight."""
    block: tuple[int, ...] = ()
    """Elements that share a scale: (outputs, inputs), or (inputs,); empty: one scale for all."""
    scale: str = "fp32"
    """Element type of the scales."""
    zeros: str = ""
    """Element type of the zero points, of which there are as many as scales; empty: none."""
    activations: str = ""
    """Element type that products read their other operand in; empty: the step's."""

    def size(self, *dims: int) -> int:
        """Bytes of matrices [..., inputs, outputs] with their scales and zero points."""
        elements = prod(dims)
        kind = find_type(self.dtype)
        bits = 16 if kind is None else kind.bits
        shared = element_bytes(self.scale) + (element_bytes(self.zeros) if self.zeros else 0)
        return -(-elements * bits // 8) + ceil(self.scales(*dims) * shared)

    def scales(self, *dims: int) -> int:
        """Scales of matrices [..., inputs, outputs]."""
        *lead, inputs, outputs = dims
        if not self.block:
            return prod(lead)
        down, across = self.block if len(self.block) == 2 else (1, self.block[0])
        return prod(lead) * -(-outputs // down) * -(-inputs // across)

    @property
    def group(self) -> str:
        """The block in words: 128x128, 16, channel (a whole row of inputs), or nothing."""
        if self.block and self.block[-1] >= WHOLE_ROW:
            return "channel"
        return "x".join(str(n) for n in self.block)


class Precision(Part, frozen=True, kw_only=True):
    """The formats that a model's weights have, by name, and what is said of its cache.

    `method` is how the files call the way they were made. `excluded` counts the names or patterns of
    what was left as it is.
    """

    formats: dict[str, Format] = msgspec.field(default_factory=dict)
    ends: dict[str, str] = msgspec.field(default_factory=dict)
    """Formats of the weights before the first and after the last layer, by their names."""
    cache: str = ""
    """Element type of keys and values in the cache; empty: the step's."""
    dtype: str = ""
    """Element type of what is not quantized, as the file says it."""
    method: str = ""
    excluded: int = 0
    source: str = ""
    """The file that says so."""
