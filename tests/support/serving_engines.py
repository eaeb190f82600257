"""Engines whose steps take a constant time, and streams to serve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chakrakit.serving import EngineOptions
from chakrakit.serving.cluster import PoolSetup, ServingOutcome
from chakrakit.serving.kvcache import Capacity
from chakrakit.serving.requests import RequestStream, stream_of
from chakrakit.serving.steps import StepCost
from chakrakit.serving.steps.costing import roofline_attention

Serve = Callable[..., ServingOutcome]
NO_ATTENTION = roofline_attention(0.0, 0.0, 0.0, 0.0)


def constant(seconds: float) -> StepCost:
    """Steps that take the same time whatever they hold."""
    return StepCost(lambda _n: seconds, lambda _n: 0.0, NO_ATTENTION)


def by_tokens(seconds: float, each: float) -> StepCost:
    """Steps that take longer with each token."""
    return StepCost(lambda n: seconds + each * n, lambda _n: 0.0, NO_ATTENTION)


def pool(blocks: int = 1000, cost: StepCost | None = None, **options: Any) -> PoolSetup:
    engine = EngineOptions(**{"prefix_cache": False, **options})
    capacity = Capacity(
        blocks=blocks, block_size=engine.block_size, bytes_per_token=1000, fixed=True
    )
    return PoolSetup(engine, cost or constant(0.01), capacity)


def together(count: int, prompt: int, output: int) -> RequestStream:
    """Requests that all arrive at once."""
    return stream_of(np.zeros(count), [prompt] * count, [output] * count)
