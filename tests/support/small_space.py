"""A small model, a step of it, and a space of 16 plans: what searches are tried on."""

from __future__ import annotations

from typing import Any

from chakrakit.workloads.description import Step
from chakrakit.workloads.models import model_named

MODEL = model_named("llama3.1-8b").replace(layers=2)
STEP = Step(seq=1024, global_batch=8)
FEW: dict[str, list[Any]] = {
    "tp": [1, 2],
    "pp": [1, 2],
    "micro_batch": [1, 2],
    "recompute": ["none", "full"],
    "schedule": ["1f1b"],
    "data": ["zero1"],
}
