"""A model of one's own: a new layer is a function of operators on a tape.

The layer mixes tokens with a gated projection instead of attention. What it communicates under tensor
parallelism, its FLOPs and its backward are not written here: they follow.
"""

from __future__ import annotations

import msgspec

from chakrakit.workloads.description import Plan, Step, Workload
from chakrakit.workloads.generate import dry_run, generated
from chakrakit.workloads.layers import (
    FAMILIES,
    Dim,
    FamilyBlocks,
    Tape,
    Tensor,
    add,
    linear,
    lookup,
    norm,
    vector,
)


class Gated(msgspec.Struct, frozen=True, kw_only=True, tag="gated", tag_field="family"):
    """A stack of gated layers over tokens."""

    name: str = "gated"
    layers: int = 8
    hidden: int = 1024
    vocab: int = 32000


def gated(model: Gated, plan: Plan, step: Step, axes: tuple[str, ...]) -> FamilyBlocks:
    """The model's blocks; `axes` is how the sequence is cut between layers."""
    shape = (Dim(step.micro_batch), Dim(step.seq, axes), Dim(model.hidden))

    def layer(tape: Tape) -> Tensor:
        x = tape.input(*shape)
        h = norm(tape, "norm", x)
        wide = Dim(2 * model.hidden, ("tp",))
        value, gate = linear(tape, "value", h, wide), linear(tape, "gate", h, wide)
        mixed = vector(tape, "mix", [value, gate], ops=3, keeps=[value, gate])
        return add(tape, "add", x, linear(tape, "out", mixed, Dim(model.hidden), into=("tp",)))

    def embed(tape: Tape) -> Tensor:
        table = tape.weight("table", Dim(model.vocab, ("tp",)), Dim(model.hidden), kind="table")
        found = lookup(tape, "embedding", table, (shape[0], Dim(step.seq, ("cp",))))
        return tape.reshard(found, Tensor(shape, found.dtype), "embedding")

    def error(tape: Tape) -> Tensor:
        x = tape.input(*shape)
        return vector(tape, "loss", [x], ops=3, keeps=[x])

    return FamilyBlocks(
        ["embed"],
        ["layer"] * model.layers,
        ["error"],
        {"embed": embed, "layer": layer, "error": error},
    )


FAMILIES[Gated] = gated

for plan in (Plan(tp=4), Plan(tp=4, sequence_parallel=False), Plan(tp=2, pp=2, schedule="zb-h1")):
    workload = Workload(model=Gated(), plan=plan, step=Step(seq=1024, global_batch=4))  # type: ignore[arg-type]
    figures = dry_run(generated(workload))
    moved = ", ".join(f"{c.count} {c.type} {c.bytes:,} B" for c in figures.per_rank[0].comm)
    print(f"tp {plan.tp} pp {plan.pp}: {figures.flops_total:,} FLOPs; {moved}")
