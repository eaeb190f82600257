"""A small model, and machines on which one thing alone takes time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chakrakit.machines import parse_machine
from chakrakit.machines.fabric import Machine
from chakrakit.serving.steps import StepOperators
from chakrakit.workloads.description import Decoder, Plan, Step


@pytest.fixture
def operators() -> Callable[..., StepOperators]:
    """Of two layers of 256, four heads, an MLP of 512 and 1,000 tokens, in bf16."""

    def made(plan: Plan | None = None, four_bits: bool = False, **changes: Any) -> StepOperators:
        model = Decoder(
            **{"layers": 2, "hidden": 256, "heads": 4, "ffn": 512, "vocab": 1000, **changes}
        )
        step = Step(kind="decode", matmul_dtype="fp8" if four_bits else None)
        return StepOperators(model, plan or Plan(), step, four_bits)

    return made


@pytest.fixture
def machine() -> Callable[..., Machine]:
    """Two devices at 10 GB/s and 1 µs, with a device as described."""

    def made(**device: Any) -> Machine:
        network = [{"topology": "switch", "size": 2, "bandwidth": 10e9, "latency": 1e-6}]
        return parse_machine({"network": network, "device": device}, "two")

    return made
