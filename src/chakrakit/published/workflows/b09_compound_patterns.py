"""B09, a design methodology for compound AI systems: patterns of several models in place of one large model.

Requests, some of them hard, arrive at three pools of models, and each is answered by a pattern
(`compound_patterns.py`): cascade, router, vote, race, decompose, refine. A choice that is more than four
points less accurate than the large model does not count. Comparators are single models, once or by majority
of three, tuned under the same rule.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.workflows.compound_patterns import MODELS, Compound, PatternRequest
from chakrakit.simulator import live

REQUESTS = 400
TOLERATED = 0.04
"""Points of accuracy that a choice may lose; published losses are 2.5 to 4."""


def _ask(
    me: live.Actor,
    models: Compound,
    request: PatternRequest,
    pattern: Sequence[str],
    ends: list[float],
) -> live.Program:
    began = me.now
    right = yield from models.program(request, pattern)
    ends.append((me.now - began) / live.S)
    return bool(right)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Mean latency (endless where too many answers are wrong), cost beside the large model's, accuracy."""
    world, rng = live.World(record=False, seed=seed), random.Random(f"requests {seed}")
    models, now = Compound(world, case["width"]), 0.0
    ends: list[float] = []
    requests = []
    for number in range(REQUESTS):
        now += rng.expovariate(case["rate"])
        own = random.Random(f"{seed}/{number}")
        request = PatternRequest(number, own.random() < case["hard"], own)
        request.right("large")  # drawn first, so that it is the same for every pattern
        requests.append(request)
        pattern = setting["pattern"].split()
        program = (_ask, models, request, pattern, ends)
        world.actor(*program, name=f"request {number}", at_ns=now * live.S)
    result = world.run()
    accuracy = float(np.mean(list(result.returned.values())))
    wanted = float(np.mean([r.right("large") for r in requests])) - TOLERATED
    cost = float(np.mean([r.cost for r in requests]))
    return {
        "latency_s": float(np.mean(ends)) if accuracy >= wanted else float("inf"),
        "cost_saved": 1 - cost / MODELS["large"].cost if accuracy >= wanted else float("nan"),
        "accuracy": accuracy,
        "at_work": _at_work(result.summary),
    }


def _at_work(summary: live.LiveSummary) -> float:
    """Which share of the time at models is no waiting."""
    busy = sum(p.busy_share * p.width for p in summary.pools) * summary.end_ns
    return busy / (busy + sum(p.mean_wait_ns * p.uses for p in summary.pools))


def cases(quick: bool) -> Sequence[Case]:
    """How many requests are hard, and how busy models are; for easy ones alone a small model is enough."""
    shares = (0.2, 0.5) if quick else (0.1, 0.2, 0.5, 0.9)
    rates = (2.0,) if quick else (0.5, 2.0)
    mixed = [{"hard": h, "rate": x, "width": 8} for h in shares for x in rates]
    return [*mixed, {"hard": 0.0, "rate": 2.0, "width": 8}]


PATTERNS = ("cascade", "router", "race", "vote", "decompose", "refine")
SINGLE = [f"{model} {votes}" for model in MODELS for votes in (1, 3)]

STUDY = Study(
    id="B09",
    system="Design methodology for compound AI",
    family="workflows",
    strength="direction",
    claims=[
        Claim("latency up to 60 % lower", 2.5, 2.5, figure="gain over large alone"),
        Claim("cost up to 71 % lower", 0.71, 0.71, figure="cost_saved"),
        Claim("within 2.5 to 4 points of accuracy", 2.5, 4.0, kind="calibrated"),
    ],
    rests_on={
        "programs that go on by what an answer is": "simulator/live/verbs.py",
        "calls at once, and until the first": "simulator/live/verbs.py",
        "lines in front of models": "simulator/live/pools.py",
    },
    cases=cases,
    sides={
        "patterns": [{"pattern": f"{p} small large"} for p in PATTERNS],
        "one model": [{"pattern": p} for p in SINGLE],
        "large alone": [{"pattern": "large 1"}],
    },
    idea="patterns",
    untuned=["large alone"],
    measure=measure,
    better=("latency_s", "min"),
    health="at_work",
    gone=lambda case: bool(case["hard"] == 0.0),
    ablate={"a second model": {"pattern": "small 1"}},
    predictions={
        "over 1.5 times over one model where a fifth is hard": lambda t: (
            least(t.gains("one model", hard=0.2)) - 1.5
        ),
        "no more than 1.3 times where half is hard": lambda t: (
            1.3 - most(t.gains("one model", hard=0.5))
        ),
        "no gain over the best single model where all is easy": lambda t: (
            1.02 - most(t.gains("one model", hard=0.0))
        ),
        "costs over half as much less where a fifth is hard": lambda t: (
            least(t.figure("cost_saved", hard=0.2)) - 0.5
        ),
    },
    decides="the share of hard requests, and how well a check tells wrong answers. Chosen by latency, the "
    "best pattern asks both models at once and pays for both: what is cheap is a cascade, and slower.",
    amended="how well comparators stand is told by waiting, since requests take longer where more are hard.",
    cannot_say="Accuracies and checks of real models, and which pattern a designer would think of.",
)
