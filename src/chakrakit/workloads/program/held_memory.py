"""What a rank holds: model state by kind, and activations as the program holds and frees them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chakrakit.workloads.layers import BYTES
from chakrakit.workloads.program.layout import HeldWeight, Layout
from chakrakit.workloads.program.optimizer import optimizer_state
from chakrakit.workloads.program.program import Program


def model_state(layout: Layout, held: Sequence[HeldWeight]) -> dict[str, int]:
    """Bytes of parameters, gradients and optimizer state on a rank of a stage."""
    step, data = layout.workload.step, layout.workload.plan.data
    if step.kind != "train":
        return {"parameters": BYTES[step.dtype] * layout.held([h.weight for h in held])}
    grad = BYTES[step.grad_dtype or "fp32"]
    found = {"parameters": 0, "gradients": 0, "optimizer": 0}
    for expert in (False, True):
        count = layout.held([h.weight for h in held if h.weight.expert == expert])
        ranks = layout.mesh.degree(layout.sync_role(expert))
        share = -(-count // ranks)
        found["parameters"] += BYTES[step.dtype] * (share if data == "fsdp" else count)
        found["gradients"] += grad * (share if data in ("zero2", "fsdp") else count)
        sharded = data in ("zero1", "zero2", "fsdp")
        found["optimizer"] += optimizer_state(step) * (share if sharded else count)
    return found


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
    found = {**model_state(layout, program.held), kind: peak_held(program) + program.held_before}
    return {**found, "total": sum(found.values())}
