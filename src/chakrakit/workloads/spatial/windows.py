"""A network on a grid, layer by layer: what each reads, writes and computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from chakrakit.operators import convolution_flops, convolution_size


@dataclass(frozen=True)
class Window:
    """A layer whose results each see a window of what comes before: a convolution, a pool, local attention.

    `dense` sees everything: a linear layer over the whole grid. `adds` has the number of layers back whose
    result is added to this one's (a residual connection).
    """

    name: str
    kind: Literal["conv", "pool", "attention", "dense"] = "conv"
    channels: int = 0
    """Of its result; 0 for as many as come in."""
    window: int = 3
    stride: int = 1
    groups: int = 1
    """Channels in so many groups that do not see each other; 0: each by itself."""
    bias: bool = False
    norm: bool = False
    """Whether a batch norm follows, with two parameters for each channel."""
    adds: int = 0
    whole: bool = False
    """Of a pool: over the whole grid."""


@dataclass(frozen=True)
class Sized:
    """A layer with the sizes that it has in a network: rows, columns and channels in and out."""

    layer: Window
    rows: int
    columns: int
    channels: int
    out_rows: int
    out_columns: int
    out_channels: int

    @property
    def groups(self) -> int:
        """Groups of channels."""
        return self.layer.groups or self.channels

    @property
    def halo(self) -> int:
        """Rows (and columns) that a window sees beyond its own on either side."""
        windowed = self.layer.kind in ("conv", "attention") or (
            self.layer.kind == "pool" and self.layer.window > self.layer.stride
        )
        return self.layer.window // 2 if windowed and not self.layer.whole else 0

    @property
    def parameters(self) -> int:
        """Weights, bias and norm."""
        layer, out = self.layer, self.out_channels
        if layer.kind == "conv":
            weights = out * (self.channels // self.groups) * layer.window**2
        elif layer.kind == "attention":
            weights = 4 * self.channels * out
        elif layer.kind == "dense":
            weights = self.rows * self.columns * self.channels * out
        else:
            return 0
        return weights + out * layer.bias + 2 * out * layer.norm

    @property
    def flops(self) -> int:
        """Matrix work of one sample; a multiply-add is two. Pools have none."""
        layer, pixels = self.layer, self.out_rows * self.out_columns
        if layer.kind == "conv":
            inside = self.channels // self.groups
            return convolution_flops(
                pixels, (self.out_channels, inside, layer.window, layer.window)
            )
        if layer.kind == "attention":
            return pixels * (
                8 * self.channels * self.out_channels + 4 * layer.window**2 * self.channels
            )
        if layer.kind == "dense":
            return 2 * self.rows * self.columns * self.channels * self.out_channels
        return 0

    @property
    def elements_in(self) -> int:
        """What comes in, for one sample."""
        return self.rows * self.columns * self.channels

    @property
    def elements_out(self) -> int:
        """What goes out, for one sample."""
        return self.out_rows * self.out_columns * self.out_channels


@dataclass(frozen=True)
class Network:
    """Layers one after the other on an image of some channels."""

    name: str
    image: tuple[int, int]
    channels: int
    layers: Sequence[Window]

    @cached_property
    def sized(self) -> list[Sized]:
        """The layers with their sizes."""
        rows, columns, channels = *self.image, self.channels
        layers = []
        for layer in self.layers:
            out = layer.channels or channels
            if layer.kind == "dense" or layer.whole:
                size = (1, 1)
            else:
                padding = (
                    layer.window // 2 if layer.kind != "pool" or layer.window > layer.stride else 0
                )
                size = tuple(  # type: ignore[assignment]
                    convolution_size(n, layer.window, layer.stride, padding)
                    for n in (rows, columns)
                )
            layers.append(Sized(layer, rows, columns, channels, *size, out))
            rows, columns, channels = *size, out
        return layers

    @cached_property
    def done_with(self) -> list[list[int]]:
        """By layer, the layers whose inputs nobody needs behind it; residual connections keep some longer."""
        last = list(range(len(self.layers)))
        for number, layer in enumerate(self.layers):
            if layer.adds:
                kept = number - layer.adds + 1
                last[kept] = max(last[kept], number)
        return [[i for i, at in enumerate(last) if at == number] for number in range(len(last))]

    @property
    def parameters(self) -> int:
        """Of all layers."""
        return sum(s.parameters for s in self.sized)

    @property
    def flops(self) -> int:
        """Matrix work of one sample forward."""
        return sum(s.flops for s in self.sized)
