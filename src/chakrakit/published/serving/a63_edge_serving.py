"""A63, EdgeServing: several networks share an edge device; images leave at early exits where time is short.

A network has four parts with an exit after each. The idea runs the network with the most pressure on its
deadlines, and lets images leave early where they, or those that wait, would be late. Comparators take the
earliest deadline or the longest queue, and leave all images at one exit, the best one. What counts is the
share of right answers in time: an early exit costs some of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.serving.early_exits import (
    RIGHT,
    STAGES,
    ByStability,
    OneDepth,
    device,
    images,
)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Right answers in time, misses, the 95th percentile, and how deep images went."""
    shape = (case["rate"], case["tight"], case["images"], seed)
    own = served(*shape, **setting)
    whole = served(*shape, "earliest deadline", STAGES)
    return {
        **own,
        "kept_more": own["in_time"] / max(whole["in_time"], 1e-3),
        "p95_less": whole["p95"] / own["p95"],
    }


@cache
def served(
    rate: float, tight: float, count: int, seed: int, rule: str, depth: float
) -> dict[str, float]:
    """What came out of one stream of images."""
    stream = images(rate, tight, count, seed)
    if rule.startswith("stability"):
        policy: OneDepth = ByStability(depth, rule == "stability with exits")
    else:
        policy = OneDepth(rule, int(depth))
    done = device().served(stream, policy=policy).outcome.requests
    seconds = (done["finish"] - done["arrival"]) * 1e-12
    assert stream.deadline_ps is not None
    in_time = seconds <= stream.deadline_ps * 1e-12
    right = np.asarray(RIGHT)[done["generated"] - 1]
    return {
        "right_in_time": float((right * in_time).mean()),
        "in_time": float(in_time.mean()),
        "p95": float(np.percentile(seconds, 95)),
        "depth": float(done["generated"].mean()),
    }


def cases(quick: bool) -> Sequence[Case]:
    """Images a second, from an idle device to one that cannot run whole networks in time, and deadlines."""
    count = 200 if quick else 1200
    rows = [(50, 40), (550, 20), (800, 12)]
    if not quick:
        rows += [(400, 8), (550, 8), (800, 20), (1200, 20)]
    return [{"rate": rate, "tight": tight, "images": count} for rate, tight in rows]


def one(rule: str, depth: float) -> Setting:
    """What runs next, and the exit of all images or, by stability, the margin."""
    return {"rule": rule, "depth": depth}


MARGINS = (1.0, 1.5, 2.5)
STUDY = Study(
    id="A63",
    system="EdgeServing",
    family="serving",
    strength="direction",
    claims=[
        Claim(
            "fewer misses than with whole networks (an ordering)", 1.02, np.inf, figure="kept_more"
        ),
        Claim("a lower 95th percentile (an ordering)", 1.02, np.inf, figure="p95_less"),
        Claim("accuracy of real networks at their exits", 1.0, 1.0, kind="not simulable"),
    ],
    rests_on={
        "batches whose time depends on what is in them": "serving/service.py",
        "requests that end early": "serving/policies.py",
    },
    cases=cases,
    sides={
        "EdgeServing": [one("stability with exits", margin) for margin in MARGINS],
        "earliest deadline, one exit": [one("earliest deadline", d) for d in range(1, STAGES + 1)],
        "largest queue, one exit": [one("largest queue", d) for d in range(1, STAGES + 1)],
        "earliest deadline, whole": [one("earliest deadline", STAGES)],
    },
    idea="EdgeServing",
    untuned=["earliest deadline, whole"],
    measure=measure,
    better=("right_in_time", "max"),
    health="in_time",
    gone=lambda case: bool(case["rate"] == 50),
    ablate={"early exits": {"rule": "stability"}},
    predictions={
        "no gain where deadlines are loose": lambda t: 0.02 - most(abs(t.gains(rate=50) - 1)),
        "more right answers in time than with whole networks at every load": lambda t: (
            least(t.gains("earliest deadline, whole", rate=lambda r: r > 500)) - 1.02
        ),
        "a choice of exits is better than the best single one": lambda t: (
            least(t.gains(rate=lambda r: r > 50)) - 1.0
        ),
        "images leave earlier the higher the load": lambda t: (
            least(t.figure("depth", rate=50)) - most(t.figure("depth", rate=800))
        ),
    },
    decides="whether one exit can suit all images: it does until deadlines are three parts of a network "
    "away, and then a choice by image gains up to a tenth; at 550 a second whole networks are in time.",
    amended="After the first quick run the rule for exits was made to count images of other networks that "
    "have started; before, it had counted only those that had not.",
    cannot_say="How right answers are at the exits of real networks, which is a table here, and times of a "
    "real device: a share of its rates and a time for launches are assumed.",
)
