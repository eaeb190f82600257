"""A run of one engine that served two requests, written by hand; times in milliseconds."""

from __future__ import annotations

import numpy as np

import chakrakit as ck
from chakrakit.trace.sets import run_of

STEPS = ((0, 10, 8, 6, 6), (10, 20, 6, 4, 8), (20, 30, 2, 0, 10))
"""(start, end, tokens, prompt tokens, context)"""
REQUESTS = ((0, 0, 10, 30, 6, 3), (0, 10, 20, 30, 4, 2))
"""(arrival, scheduled, first token, finish, prompt, output)"""


def served(slower: float = 1.0, **limits: int) -> ck.Run:
    """Both requests arrive at 0; the second waits for a step, in which the first has the cache full."""
    t, times = ck.TraceBuilder(), []
    for start, end, tokens, prompts, context in STEPS:
        t.comp(
            "step",
            stream=0,
            batch_tokens=tokens,
            batch_prompt_tokens=prompts,
            batch_context=context,
            batch_requests=2,
        )
        times.append((start, end))
    for number, (arrival, scheduled, first, finish, prompt, output) in enumerate(REQUESTS):
        said = {"request": number, "request_prompt": prompt, "request_output": output}
        for name, start, end in (
            ("queued", arrival, scheduled),
            ("prompt", scheduled, first),
            ("output", first, finish),
        ):
            t.comp(name, stream=1 + number, **said)
            times.append((start, end))
    start, end = (np.array(c) * 1e6 * slower for c in zip(*times, strict=True))
    at = (np.array([0, 10, 20, 30]) * 1e6 * slower).astype(np.int64).tolist()
    rank = [0] * 4
    counters = {
        "kv_cache": {"rank": rank, "time_ns": at, "tokens": [100, 10, 10, 0]},
        "batch": {"rank": rank, "time_ns": at, "requests": [1, 2, 1, 0]},
        "queue_depth": {
            "rank": rank,
            "time_ns": at,
            "queue": ["waiting"] * 4,
            "depth": [1, 1, 0, 0],
        },
    }
    card = ck.Card(settings={"engines": [limits or {"kv_capacity_tokens": 100, "max_requests": 2}]})
    run = {0: ck.Times(start.astype(np.int64), end.astype(np.int64))}
    return run_of(ck.TraceSet([t.build()], card=card), run, counters, tick_ps=1000)
