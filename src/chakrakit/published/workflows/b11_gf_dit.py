"""B11, GF-DiT: the degree of sequence parallelism is chosen anew for every denoising step.

Requests for images and videos arrive at eight GPUs of a DGX H100; each is 50 steps, one after another, of a
model with 1.3 billion parameters (`denoising.py`). A scheduler gives GPUs to the next step of whoever waits
(`step_scheduler.py`). A new set of GPUs must first set up a group, which takes 778 ms as built by a library
and 60 µs without groups; what lies between is swept. Fixed degrees need no set-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chakrakit.arrays import F64
from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.workflows.denoising import step_seconds
from chakrakit.published.workflows.step_scheduler import DEGREES, STEPS, StepScheduler, source
from chakrakit.simulator import live


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Mean latency, and the time of a step."""
    setup = case["setup_ms"] * 1e-3 if setting["groups"] == "free" else 0.778
    scheduler = StepScheduler(setting, setup)
    world = live.World(record=False, seed=seed)
    world.actor(scheduler.run, name="scheduler")
    world.actor(source, case["load"], case["videos"], name="source")
    world.run()
    values = np.array(list(scheduler.latency.values()))
    alone = STEPS * min(step_seconds("image", d) for d in DEGREES)
    return {
        "latency_s": float(values.mean()),
        "step_s": step_seconds("video", 4),
        "speed": alone / float(values.mean()),
    }


def cases(quick: bool) -> Sequence[Case]:
    """Loads, mixtures, and what it takes to set up a group; 778 ms is what libraries take."""
    setups = (0.06, 778.0) if quick else (0.06, 50.0, 100.0, 200.0, 400.0, 778.0)
    loads = (0.3,) if quick else (0.1, 0.3, 0.6)
    points = [{"load": x, "videos": 0.3, "setup_ms": s} for x in loads for s in setups]
    return [*points, {"load": 0.9, "videos": 0.3, "setup_ms": 778.0}]


def _break_even(t: Any) -> F64:
    """The lesser of what a set-up of half a step gains and what one of two steps loses, by seed."""
    mixed = {"load": 0.3, "videos": 0.3}
    setups = sorted(case["setup_ms"] for case in t.where(**mixed))
    gains = np.array([t.gains(**mixed, setup_ms=s)[0] for s in setups])
    step_ms = t.figure("step_s", **mixed, setup_ms=0.06)[0] * 1e3
    pairs = zip(gains.T, step_ms, strict=True)
    return np.array([_least_margin(np.interp([s / 2, 2 * s], setups, g)) for g, s in pairs])


def _least_margin(half_and_twice: F64) -> float:
    return float(min(half_and_twice[0] - 1, 1 - half_and_twice[1]))


STUDY = Study(
    id="B11",
    system="GF-DiT",
    family="workflows",
    strength="strong",
    claims=[
        Claim("throughput up to 6.01 times", 6.01, 6.01),
        Claim("mean latency 95 % lower", 20, 20),
        Claim("groups set up in 60 µs instead of 778 ms", 0.06, 0.06, kind="calibrated"),
    ],
    rests_on={
        "a scheduler that reacts to ends and arrivals": "simulator/live/world.py",
        "the time of a step at each degree": "simulator/engine/native.py",
        "set-up of groups": "simulator/live/verbs.py",
    },
    cases=cases,
    sides={
        "group-free": [{"fixed": 0, "greed": g, "groups": "free"} for g in (0.5, 1.0, 2.0)],
        "fixed degree": [{"fixed": d, "greed": 0.0, "groups": "built"} for d in DEGREES],
        "elastic with built groups": [
            {"fixed": 0, "greed": g, "groups": "built"} for g in (0.5, 1.0, 2.0)
        ],
    },
    idea="group-free",
    measure=measure,
    judged_seeds=30,
    better=("latency_s", "min"),
    health="speed",
    gone=lambda case: bool(case["setup_ms"] == 778.0),
    ablate={"degrees chosen anew": {"fixed": 1}},
    predictions={
        "worthless at 778 ms": lambda t: 1.02 - most(t.gains("fixed degree", setup_ms=778.0)),
        "better than the best fixed degree at 60 µs": lambda t: (
            least(t.gains("fixed degree", setup_ms=0.06)) - 1
        ),
        "breaks even within a factor 2 of a step": _break_even,
        "more gain at light load": lambda t: (
            least(t.gains(load=0.1, setup_ms=0.06)) - most(t.gains(load=0.6, setup_ms=0.06))
        ),
    },
    decides="what a fixed degree costs: with the best one for the mixture the gain is that of GPUs that "
    "would idle, not of the groups. So the set-up that breaks even follows the load and not a step: about "
    "100 ms at load 0.1, 230 ms at 0.3 and 640 ms at 0.6, which are 1.3, 3 and 8 of a video's steps of 79 "
    "ms on four GPUs. Groups built in 778 ms are worthless up to load 0.6 (0.90 to 0.97 times as good as a "
    "fixed degree) and not at 0.9 (1.2), where requests wait for GPUs that a fixed degree leaves idle.",
    amended="cases were cut for time. Thirty seeds in place of five, and breaking even judged by gains at "
    "half a step and at two, between the set-ups that were measured: before, the longest set-up with a gain "
    "was taken seed by seed, and one seed without any gain outweighed all others.",
    cannot_say="Encoders and decoders around the steps, memory of weights on many GPUs, and how groups are "
    "avoided.",
)
