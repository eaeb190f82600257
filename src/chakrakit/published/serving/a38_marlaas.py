"""A38, MARLaaS: tenants fine-tune adapters of one model on rollout and training devices that they share.

Rollouts are sessions whose turns wait for environments; an iteration ends with a training step. The idea
lets tenants go on as their own rollouts and steps end, with their adapters in one batch. The comparator
takes one tenant after another and keeps the base weights; as it was published, it loads them for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.serving.rollouts import Rollouts, Training
from chakrakit.serving import ServingSession, serving_of

LOAD_S = 16.1 / 3
"""Seconds to load 16.1 GB of weights from a local disk at 3 GB/s."""


@cache
def engine() -> ServingSession:
    """One device for rollouts; step times are worked out once."""
    options = "vllm{max_loras=32,max_num_seqs=1024}"
    stream = "poisson{rate=1,n=1,prompt=1800}"
    return serving_of("llama-3.1-8b", "dgx-h100", stream, options, compute="roofline")


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds until all tenants are done, and how busy both devices were, by that of one at a time."""
    shape = (case["tenants"], case["wait"], case["sessions"], case["iterations"], seed)
    seconds, busy = trained(*shape, **setting)
    alone = trained(*shape, 1, False, 0.0)[1]
    one_s = trained(1, *shape[1:], 1, False, 0.0)[0]
    return {
        "seconds": seconds,
        "busier": busy / alone,
        "as_planned": case["tenants"] * one_s / seconds,
    }


@cache
def trained(
    tenants: int,
    wait: float,
    sessions: int,
    iterations: int,
    seed: int,
    at_once: int,
    lockstep: bool,
    load: float,
) -> tuple[float, float]:
    """When the last tenant has ended, and the share of both devices' time in use."""
    plan = Training(
        tenants,
        sessions,
        wait,
        iterations=iterations,
        at_once=at_once,
        lockstep=lockstep,
        load_s=load,
    )
    source = Rollouts(plan, seed)
    done = replace(engine(), stream=source.stream, source=source).served().outcome
    seconds = max(source.ends.values())
    used = sum(int(t["busy"]) for t in done.totals) * 1e-12 + source.trained_s
    return seconds, used / (2 * seconds)


def cases(quick: bool) -> Sequence[Case]:
    """One tenant and many, environments that answer at once and slowly, and a pool that is full."""
    rows = [(1, 5.0, 4), (4, 5.0, 4), (4, 0.5, 4)] if quick else [(1, 5.0, 8), (8, 5.0, 8)]
    if not quick:
        rows += [(32, 5.0, 8), (32, 0.5, 8), (8, 20.0, 8), (8, 0.5, 64), (1, 20.0, 8)]
    count = 2 if quick else 3
    return [{"tenants": n, "wait": w, "sessions": s, "iterations": count} for n, w, s in rows]


def one(at_once: int, lockstep: bool = False, load: float = 0.0) -> Setting:
    """Tenants at the same time, whether they wait for each other, and seconds to load a model."""
    return {"at_once": at_once, "lockstep": lockstep, "load": load}


STUDY = Study(
    id="A38",
    system="MARLaaS",
    family="serving",
    strength="strong",
    claims=[
        Claim("training takes 85 % less time", 6.67, 6.67),
        Claim("devices up to 4.3 times as busy", 4.3, np.inf, figure="busier"),
        Claim("up to 32 tenants at once", 1.0, 1.0, kind="calibrated"),
    ],
    rests_on={
        "rollouts, environments and steps that follow each other": "serving/requests/source.py",
        "adapters of many tenants in one batch": "serving/steps/modelled.py",
        "step times by how many requests run": "serving/session.py",
    },
    cases=cases,
    sides={
        "MARLaaS": [one(32)],
        "one after another, weights kept": [one(1)],
        "one after another": [one(1, load=LOAD_S)],
    },
    idea="MARLaaS",
    untuned=["one after another"],
    measure=measure,
    better=("seconds", "min"),
    health="as_planned",
    gone=lambda case: bool(case["tenants"] == 1),
    ablate={"tenants at the same time": {"at_once": 1}},
    predictions={
        "no gain for one tenant": lambda t: 0.02 - most(abs(t.gains(tenants=1) - 1)),
        "the gain grows with tenants": lambda t: (
            least(t.gains(tenants=32, wait=5.0)) - most(t.gains(tenants=8, wait=5.0))
        ),
        "the gain grows with the time of environments": lambda t: (
            least(t.gains(tenants=8, wait=20.0)) - most(t.gains(tenants=8, wait=0.5))
        ),
        "devices cannot be busier than the gain in time": lambda t: (
            least(t.gains() - t.figure("busier")) + 0.05
        ),
    },
    decides="the training device, which one tenant uses for a part of its time: 32 tenants fill it, so that "
    "devices are 4.0 times as busy and the time is 7.6 times shorter, the rest being decode in one batch.",
    amended="After the first quick run the figure for collapse became the time that tenants would take one "
    "by one: how busy devices are differs between cases anyway.",
    cannot_say="What policies learn, and how long environments and training steps really take: their times "
    "are given.",
)
