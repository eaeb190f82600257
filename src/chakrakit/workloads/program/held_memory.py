"""What a rank holds: model state by kind, and activations as the program holds and frees them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chakrakit.trace.memory import HELD_KIND, StatePart, state_attribute
from chakrakit.workloads.layers import BYTES
from chakrakit.workloads.program.layout import HeldWeight, Layout
from chakrakit.workloads.program.optimizer import optimizer_state
from chakrakit.workloads.program.program import Program


def model_state(layout: Layout, held: Sequence[HeldWeight]) -> list[StatePart]:
    """Parameters, gradients and optimizer state on a rank of a stage."""
    step, data = layout.workload.step, layout.workload.plan.data
    if step.kind != "train":
        count = layout.held([h.weight for h in held])
        return [StatePart("parameters", BYTES[step.dtype] * count)]
    widths = {
        "parameters": (BYTES[step.dtype], data == "fsdp"),
        "gradients": (BYTES[step.grad_dtype or "fp32"], data in ("zero2", "fsdp")),
        "optimizer": (optimizer_state(step), data in ("zero1", "zero2", "fsdp")),
    }
    found = []
    for expert in (False, True):
        count = layout.held([h.weight for h in held if h.weight.expert == expert])
        role = layout.sync_role(expert)
        for kind, (width, sharded) in widths.items():
            whole = StatePart(kind, width * count, role if sharded else "", count, width)
            found.append(whole.resharded(layout.mesh.degree(role)) if sharded else whole)
    return [part for part in found if part.bytes]


def header(layout: Layout, program: Program) -> dict[str, str]:
    """What a trace's header says about its rank's memory."""
    before = StatePart("kv_cache", program.held_before)
    parts = [*model_state(layout, program.held), before]
    kind = {} if layout.workload.step.kind == "train" else {HELD_KIND: "kv_cache"}
    return {**state_attribute(parts), **kind}


def peak_held(program: Program) -> int:
    """Most bytes held at once by what nodes keep, in the order the program runs.

    A node holds what it makes while it runs, and releases what it frees when it ends.
    """
    columns = program.columns
    if len(program) == 0:
        return 0
    before = np.cumsum(columns["alloc"] - columns["free"])
    return int((before + columns["free"]).max())


def memory(layout: Layout, program: Program) -> dict[str, int]:
    """Bytes on a rank by kind, and their sum."""
    kind = "activations" if layout.workload.step.kind == "train" else "kv_cache"
    train = layout.workload.step.kind == "train"
    found = dict.fromkeys(("parameters", "gradients", "optimizer") if train else ("parameters",), 0)
    for part in model_state(layout, program.held):
        found[part.kind] += part.bytes
    found[kind] = peak_held(program) + program.held_before
    return {**found, "total": sum(found.values())}
