"""A70, HELM: embeddings and users' histories share a device's memory, and the border between them moves.

A request needs pages of embeddings, which come over PCIe where they are missing, and its user's history,
which is computed where it is missing. Which of the two deserves the memory changes: a few users who return
and see many items, or many users who see a few. The idea moves the border to where near misses cost more.
Comparators are fixed borders, and a hill climber, which needs no ghosts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.serving.two_caches import (
    HISTORY,
    MEMORY,
    PAGE,
    REGIMES,
    ByValue,
    HillClimb,
    load,
    recommender,
)
from chakrakit.serving import CachePair

LEVEL_S = 0.08
"""Seconds within which a recommendation is to be there."""
EVERY = 20
"""Requests between two looks of a controller."""


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """The 99th percentile of a request's time, requests in time, and where the border was on average."""
    requests = load(case["regime"], case["rate"], case["requests"], seed)
    controllers: dict[str, Callable[[], Callable[[CachePair], float]]] = {
        "by value": lambda: ByValue(setting["step"], 0.5),
        "hill climb": lambda: HillClimb(setting["step"]),
    }
    made = controllers.get(setting["border"])
    pair = CachePair(
        MEMORY,
        (PAGE, HISTORY),
        share=setting["share"],
        controller=made() if made else None,
        every=EVERY,
        eager=setting["eager"],
    )
    known = [p.share for p in REGIMES[case["regime"]]] if setting["border"] == "known" else []
    service = recommender(pair, requests, known)
    done = service.served(requests.stream).outcome.requests
    seconds = (done["finish"] - done["arrival"])[case["requests"] // 10 :] * 1e-12
    return {
        "p99": float(np.percentile(seconds, 99)),
        "in_time": float((seconds <= LEVEL_S).mean()),
        "speed": 1 / float(seconds.mean()),
    }


def cases(quick: bool) -> Sequence[Case]:
    """Regimes that stay, drift and change at once, at two loads."""
    count, rates = (240, (60,)) if quick else (2400, (40, 70))
    names = ("steady", "trend", "bursts")
    return [{"regime": r, "rate": rate, "requests": count} for r in names for rate in rates]


def one(border: str, share: float = 0.5, step: float = 0.0, eager: bool = False) -> Setting:
    """Who moves the border, where it begins, by how much it moves, and whether caches refill at once."""
    return {"border": border, "share": share, "step": step, "eager": eager}


STEPS = (0.03, 0.1, 0.2)
STUDY = Study(
    id="A70",
    system="HELM",
    family="serving",
    strength="strong",
    claims=[
        Claim(
            "P99 24 % less than with the best fixed share",
            1.32,
            1.32,
            figure="gain over a fixed share",
        ),
        Claim(
            "P99 38 % less than with the best fixed share",
            1.61,
            1.61,
            figure="gain over a fixed share",
        ),
        Claim("93.5 to 99.6 % in time", 0.935, 1.0, figure="in_time", where={"rate": 40}),
        Claim("decisions in 32 µs", 1.0, 1.0, kind="not simulable"),
    ],
    rests_on={
        "two caches in one memory, and a border that moves": "serving/cache_pair.py",
        "queues of a service": "serving/service.py",
    },
    cases=cases,
    sides={
        "HELM": [one("by value", step=step) for step in STEPS],
        "a fixed share": [one("fixed", share) for share in (0.1, 0.25, 0.4, 0.55, 0.7, 0.85)],
        "a hill climber": [one("hill climb", step=step) for step in STEPS],
        "knows the phases": [one("known")],
    },
    idea="HELM",
    untuned=["knows the phases"],
    measure=measure,
    better=("p99", "min"),
    health="speed",
    gone=lambda case: bool(case["regime"] == "steady"),
    ablate={"a border that moves": {"border": "fixed", "step": 0.0}},
    predictions={
        "better than the best fixed share where phases change at once": lambda t: (
            least(t.gains("a fixed share", regime="bursts")) - 1.02
        ),
        "the best fixed share is neither end of the range where phases change": lambda t: np.array(
            [
                min(curve[0.1], curve[0.85]) - min(curve.values())
                for curve in (
                    t.curve("share", "p99", c, "a fixed share") for c in t.where(regime="bursts")
                )
            ]
        ).min(keepdims=True),
        "no gain where nothing changes": lambda t: (
            1.02 - most(t.gains("a fixed share", regime="steady"))
        ),
        "within 10 % of a border that knows the phases": lambda t: (
            least(t.gains("knows the phases")) - 0.9
        ),
    },
    decides="how long a phase is by the border's way: it follows a trend, and is still on its way in half of "
    "a burst. Near misses say nothing where a cache is far too small, which is where it matters in a steady "
    "regime; and the 99th percentile is that of the refill after a change, even where the phases are known.",
    amended="Requests need 200 pages and not 60: with fewer, histories were worth the memory in every phase. "
    "Only comparators had been measured.",
    cannot_say="What a policy that was trained does; the one here follows what caches would have hit. Sizes, "
    "times and how phases differ are given.",
)
