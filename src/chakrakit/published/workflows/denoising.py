"""Denoising steps of a diffusion transformer, at every degree of sequence parallelism.

A layer is four projections, attention over all tokens and two products of its feed-forward part. Each rank
has its share of the tokens; heads go around in three all-to-alls before attention and one after it, as in
Ulysses.
"""

from __future__ import annotations

from functools import cache

from chakrakit.machines import load_machine
from chakrakit.published import kernel, seconds_of
from chakrakit.trace.model import CollectiveType, TraceBuilder
from chakrakit.trace.sets import TraceSet

LAYERS, WIDTH, FEED_FORWARD = 30, 1536, 8960
"""Of Wan 2.1 with 1.3 billion parameters, which has 12 heads."""
TOKENS = {"image": 1_560, "video": 32_760}
"""Patches of 480 × 832 pixels: one frame, and 81 frames in 21 latent ones."""


@cache
def step_seconds(kind: str, degree: int) -> float:
    """Seconds of one step on so many GPUs of a DGX H100: those of one simulated layer, times layers."""
    tokens = TOKENS[kind] / degree
    projections = 2 * tokens * WIDTH * WIDTH * 4 + 2 * tokens * WIDTH * FEED_FORWARD * 2
    attention = 4 * tokens * TOKENS[kind] * WIDTH
    weights = 2 * (4 * WIDTH * WIDTH + 2 * WIDTH * FEED_FORWARD)
    t = TraceBuilder()
    last = kernel(t, "projections", projections, weights + 12 * tokens * WIDTH, "bf16")
    exchanged = int(2 * tokens * WIDTH)
    for _ in range(3 if degree > 1 else 0):
        last = t.collective("heads", CollectiveType.ALL_TO_ALL, exchanged, deps=[last], stream=1)
    if degree > 1:
        last = t.collective("back", CollectiveType.ALL_TO_ALL, exchanged, deps=[last], stream=1)
    kernel(t, "attention", attention, 8 * tokens * WIDTH, "bf16", [last])
    traces = TraceSet.of([t] * degree)
    return LAYERS * seconds_of(traces, load_machine("dgx-h100"), "roofline")
