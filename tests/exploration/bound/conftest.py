"""A small plan, laid out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chakrakit.workloads.description import Decoder, Plan, Step, Workload
from chakrakit.workloads.program import WorkloadLayout


@pytest.fixture
def layout() -> Callable[..., WorkloadLayout]:
    """Four layers of 64 and two micro-batches, under a plan."""

    def made(**plan: Any) -> WorkloadLayout:
        model = Decoder(name="m", layers=4, hidden=64, heads=4, vocab=100)
        step = Step(seq=64, global_batch=2 * plan.get("dp", 1), micro_batch=1)
        return WorkloadLayout(Workload(model=model, plan=Plan(**plan), step=step))

    return made
