"""The tokens of a micro-batch, and the projection that every layer is made of."""

from __future__ import annotations

from dataclasses import dataclass

from chakrakit.workloads.layers.attention import Core
from chakrakit.workloads.layers.operators import matmul
from chakrakit.workloads.layers.sharding import Dim, Tensor
from chakrakit.workloads.layers.tape import Tape


@dataclass(frozen=True)
class Tokens:
    """The tokens of one micro-batch of one data-parallel rank, and how they are cut between layers."""

    batch: int
    seq: int
    core: Core
    axes: tuple[str, ...] = ("cp",)
    sampled: int = 0
    """Tokens the head works on; 0 for all (training)."""
    dispatch_dtype: str = ""

    def dims(self, hidden: int) -> tuple[Dim, Dim, Dim]:
        """An activation between layers."""
        return Dim(self.batch), Dim(self.seq, self.axes), Dim(hidden)


def linear(
    tape: Tape,
    name: str,
    x: Tensor,
    out: Dim,
    into: tuple[str, ...] = (),
    bias: bool = False,
    tied: bool = False,
    wide: bool = False,
) -> Tensor:
    """A projection to `out`; `into` are the axes that cut the contraction (row parallel).

    A tied one reads the matrix of another, which counts once; a wide one is never trained in a narrow type.
    """
    size = x.dims[-1].size
    weight = tape.weight(f"{name}.weight", Dim(size, into), out)
    weight.tied, weight.wide = tied, wide
    extra = tape.weight(f"{name}.bias", out, kind="vector") if bias else None
    return matmul(tape, name, x, weight, extra)
