"""A56, BalanceRoute: requests go to the rank that they do not make the slowest, where all wait for that one.

Ranks with attention of their own step together. A rank's load is the tokens that it holds and was promised;
filling below the fullest rank is free, above it costs all. Requests may also be held until a rank has room,
so that they are placed with what is known then. Comparators are turns, the fewest requests and the fewest
tokens, which may hold requests too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.serving.balancing import ROUTERS
from chakrakit.serving import ServingSession, serving_of
from chakrakit.serving.requests import requests_from

RANKS = 8


@cache
def engine() -> ServingSession:
    """Eight ranks that step together; step times are worked out once."""
    return serving_of(
        "deepseek-v3-16b",
        "dgx-h100",
        "poisson{rate=1,n=1}",
        "vllm{max_num_seqs=32}",
        dp=RANKS,
        ep=RANKS,
        compute="roofline",
    )


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Output tokens a second while ranks are busy, and the fullest rank over the mean."""
    text = f"{case['arrivals']}{{{case['load']},n={case['requests']},prompt={case['prompt']},"
    text += f"output={case['output']},seed={seed}}}"
    policy = ROUTERS[setting["route"]](setting["most"])
    session = replace(engine(), stream=requests_from(text), policy=policy)
    outcome = session.served(record_steps=True).outcome
    steps, done = outcome.steps, outcome.requests
    order = np.argsort(steps["start"], kind="stable")
    context = steps["context"][order][: len(order) // RANKS * RANKS].reshape(-1, RANKS)
    busy = context[context.sum(axis=1) > 0]
    uneven = busy.max(axis=1) / busy.mean(axis=1)
    seconds = float(done["finish"].max() - done["arrival"].min()) * 1e-12
    return {
        "tokens_per_s": float(done["generated"].sum()) / seconds,
        "uneven": float(np.average(uneven, weights=busy.sum(axis=1))),
        "even": float(1 / np.average(uneven, weights=busy.sum(axis=1))),
    }


def cases(quick: bool) -> Sequence[Case]:
    """Full ranks with long tails or equal lengths, all at once or as others end, and a low load."""
    count = 96 if quick else 480
    tail = {"prompt": "lognormal:1500:1.5", "output": "lognormal:40:1"}
    equal = {"prompt": "1500", "output": "40"}
    full = {"arrivals": "closed", "load": f"concurrency={count // 2}", "requests": count}
    burst = {"arrivals": "bursts", "load": f"rate=1000,size={count}", "requests": count}
    low = {"arrivals": "poisson", "load": "rate=8", "requests": count // 4}
    return [
        {**full, **tail},
        {**full, **equal},
        {**low, **tail},
        *([] if quick else [{**burst, **tail}]),
    ]


def each(route: str) -> Sequence[Setting]:
    """A rule, which routes at once, or holds a request while all ranks have so many."""
    return [{"route": route, "most": most} for most in (10**6, 24)]


STUDY = Study(
    id="A56",
    system="BalanceRoute",
    family="serving",
    strength="strong",
    claims=[
        Claim("less imbalance and more throughput than other routers, on 144 NPUs", 1.02, 1.02)
    ],
    rests_on={
        "ranks that wait for the slowest": "serving/cluster.py",
        "what a router sees, and requests that it holds": "serving/policy_views.py",
        "time of attention by context": "serving/steps/modelled.py",
    },
    cases=cases,
    sides={
        "BalanceRoute": each("below the fullest"),
        "turns": each("turns"),
        "fewest requests": each("fewest requests"),
        "fewest tokens": each("fewest tokens"),
    },
    idea="BalanceRoute",
    measure=measure,
    better=("tokens_per_s", "max"),
    health="even",
    gone=lambda case: bool(case["prompt"] == "1500" or case["arrivals"] == "poisson"),
    ablate={"knowing the fullest rank": {"route": "turns"}},
    predictions={
        "ranks are more even than with turns where lengths have a long tail": lambda t: (
            least(t.figure("uneven", "turns", arrivals="closed", prompt="lognormal:1500:1.5"))
            - most(t.figure("uneven", arrivals="closed", prompt="lognormal:1500:1.5"))
        ),
        "the fewest tokens get most of it": lambda t: (
            0.03 - most(t.gains("fewest tokens", arrivals="closed") - 1)
        ),
        "there is no gain where all requests are alike": lambda t: (
            0.02 - most(abs(t.gains(prompt="1500") - 1))
        ),
        "there is no gain at a low load": lambda t: (
            0.02 - most(abs(t.gains(arrivals="poisson") - 1))
        ),
    },
    decides="how much of a step is attention over the cache: the rest is the same however requests lie.",
    cannot_say="The forecast of a request's end, and what a decision costs on the host of 144 NPUs.",
)
