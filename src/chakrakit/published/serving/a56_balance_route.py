"""A56, BalanceRoute: requests go to data-parallel ranks so that none holds many more tokens than the others.

Ranks step together, and a step takes as long as the fullest of them needs. The idea lets requests wait
for all ranks together and places one where it stays below the fullest, with loads as they are (BR-0) or as
a classifier of ends expects them in 64 steps (BR-H). Comparators send to the rank with the fewest requests
or tokens, at once or when a rank has room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.serving.balancing import BalanceRoute, Fewest, unevenness
from chakrakit.serving import ServingSession, serving_of
from chakrakit.serving.requests import requests_from

ROOM = 32
"""Requests that a rank runs at once."""


@cache
def engine(ranks: int) -> ServingSession:
    """Ranks with attention of their own and experts in common; step times are worked out once."""
    options = f"vllm{{max_num_seqs={ROOM}}}"
    stream = "poisson{rate=1,n=1,prompt=2000}"
    return serving_of("deepseek-v3-16b", "dgx-h100", stream, options, dp=ranks, ep=ranks)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """How uneven steps are, and tokens a second over those of taking turns."""
    seconds, uneven, p99 = served(case["load"], case["ranks"], case["wrong"], seed, **setting)
    turns = served(case["load"], case["ranks"], 0.0, seed, "turns", 0, 0)[0]
    return {"uneven": uneven, "p99": p99, "faster": turns / seconds, "even": 1 / uneven}


@cache
def served(
    load: str, ranks: int, wrong: float, seed: int, rule: str, hold: int, horizon: int
) -> tuple[float, float, float]:
    """Seconds until all is done, and the mean and 99th percentile of how uneven steps are."""
    policies: dict[str, Any] = {
        "turns": lambda: None,
        "requests": lambda: Fewest(False, hold),
        "tokens": lambda: Fewest(True, hold),
        "below": lambda: BalanceRoute(ROOM, horizon, wrong, True, seed),
        "anywhere": lambda: BalanceRoute(ROOM, horizon, wrong, False, seed),
    }
    stream = requests_from(f"{load[:-1]},seed={seed}}}")
    done = replace(engine(ranks), stream=stream, policy=policies[rule]()).served(record_steps=True)
    return float(done.outcome.requests["finish"].max() * 1e-12), *unevenness(done, ranks)


def cases(quick: bool) -> Sequence[Case]:
    """Lengths with a long tail or none, more requests than ranks have room for or fewer."""
    tail = "prompt=lognormal:600:1.2,output=lognormal:{}:1"
    ranks, count, output = (2, 90, 10) if quick else (8, 600, 80)
    lengths = tail.format(output)
    closed = f"closed{{concurrency={2 * ROOM * ranks},n={count},{lengths}}}"
    equal = f"closed{{concurrency={2 * ROOM * ranks},n={count},prompt=600,output={output}}}"
    bursts = f"bursts{{rate=400,size={2 * ROOM * ranks},n={count},{lengths}}}"
    rows = [(closed, 0.0), (bursts, 0.0), (equal, 0.0)]
    if not quick:
        low = f"poisson{{rate=20,n={count // 4},{lengths}}}"
        long = "prompt=lognormal:4000:1.2,output=lognormal:300:1"
        longer = f"closed{{concurrency={2 * ROOM * ranks},n={count // 2},{long}}}"
        rows += [(closed, 0.3), (bursts, 0.3), (low, 0.0), (longer, 0.0)]
    return [{"load": load, "ranks": ranks, "wrong": wrong} for load, wrong in rows]


def crowded(load: str) -> bool:
    """Whether requests wait for ranks, with lengths of a long tail."""
    return "lognormal" in load and "poisson" not in load


def one(rule: str, hold: int = 0, horizon: int = 0) -> Setting:
    """Which rank a request goes to, when a rank is full, and how far a router looks ahead."""
    return {"rule": rule, "hold": hold, "horizon": horizon}


STUDY = Study(
    id="A56",
    system="BalanceRoute",
    family="serving",
    strength="strong",
    claims=[
        Claim("ranks are more even (an ordering)", 1.02, 1.02),
        Claim("more throughput (an ordering)", 1.02, np.inf, figure="faster"),
        Claim("decisions within 100 ms on 144 NPUs", 1.0, 1.0, kind="not simulable"),
    ],
    rests_on={
        "ranks that step together and wait for the fullest": "serving/cluster.py",
        "requests that wait for all ranks together": "serving/policies.py",
        "tokens held and promised": "serving/policy_views.py",
    },
    cases=cases,
    sides={
        "BalanceRoute": [one("below"), one("below", horizon=64)],
        "fewest tokens": [one("tokens"), one("tokens", ROOM), one("tokens", 3 * ROOM // 4)],
        "fewest requests": [one("requests"), one("requests", ROOM)],
        "turns": [one("turns")],
    },
    idea="BalanceRoute",
    untuned=["turns"],
    measure=measure,
    better=("uneven", "min"),
    health="even",
    gone=lambda case: not crowded(case["load"]),
    ablate={"staying below the fullest": {"rule": "anywhere", "horizon": 0}},
    predictions={
        "more even than with any comparator where lengths have a long tail": lambda t: (
            least(t.gains(load=crowded)) - 1.0
        ),
        "no gain with equal lengths": lambda t: (
            0.02 - most(abs(t.gains(load=lambda k: "lognormal" not in k) - 1))
        ),
        "the fewest tokens get more than half of what is gained over turns": lambda t: (
            least(t.gains("turns", load=crowded, wrong=0.0))
            - 2 * most(t.gains("fewest tokens", load=crowded, wrong=0.0))
            + 1.0
        ),
        "a classifier that is wrong for three in ten costs less than 5 %": lambda t: (
            least(t.gains("fewest tokens", load=crowded, wrong=0.3))
            - 0.95 * least(t.gains("fewest tokens", load=crowded, wrong=0.0))
        ),
    },
    decides="how much of a step is attention over what ranks hold: a few per cent here, so that even ranks "
    "are 3 % faster at most, and requests that wait cost as much.",
    amended="The case with longer prompts and answers was added after a quick run, in which no router was "
    "faster: attention was little of its steps. Requests that wait are asked about in order since then.",
    cannot_say="Times of decisions, and how good a classifier of ends can be.",
)
