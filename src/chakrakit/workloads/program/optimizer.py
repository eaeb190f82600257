"""Bytes of an optimizer: what it keeps for each parameter, and what an update moves."""

from __future__ import annotations

from chakrakit.workloads.description import Step
from chakrakit.workloads.layers import BYTES


def optimizer_state(step: Step) -> int:
    """Bytes per parameter: a master copy in fp32 unless parameters are, and Adam's two moments."""
    master = 0 if step.dtype == "fp32" else 4
    return {"adam": master + 8, "sgd": master, "none": 0}[step.optimizer]


def optimizer_bytes(step: Step) -> int:
    """Bytes a parameter's update moves: gradient in, state in and out, parameter out."""
    return BYTES[step.grad_dtype or "fp32"] + 2 * optimizer_state(step) + BYTES[step.dtype]
