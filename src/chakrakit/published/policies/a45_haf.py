"""A45, HAF: an agent divides GPUs between radio functions and AI services as their load moves.

Two kinds of requests with deadlines share eight GPUs, and a GPU takes a while to serve the other kind
(`shared_gpus.py`). The idea learns which split suits which load and chooses anew every two seconds.
Comparators are the best split that never changes, a split in proportion to the load, and one line for all in
which whoever is due first goes first. What counts is the share of requests in time, the two kinds alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.policies.learned import (
    PERTURBATIONS,
    TRAINING_SEEDS,
    Learner,
    Perturbation,
)
from chakrakit.published.policies.shared_gpus import GPUS, SharedGpus, arrivals
from chakrakit.simulator import live


def _run(
    case: Case, setting: Setting, learner: Learner | None, given: Perturbation, seed: int
) -> Figures:
    shared = SharedGpus(setting, learner, given, seed)
    world = live.World(record=False, seed=seed)
    gpus = world.pool("GPUs", GPUS, policy=shared)
    for kind, name in enumerate(("radio", "AI")):
        world.actor(arrivals, shared, gpus, kind, case, given.load, name=name)
    world.actor(shared.controller, case["seconds"], name="controller")
    world.run()
    radio, ai = (float(np.mean(met)) if met else 0.0 for met in shared.met)
    return {"in_time": (radio + ai) / 2, "radio": radio, "ai": ai}


@cache
def _trained(load: float, wave: float, seconds: float, rate: float) -> Learner:
    """A table that was filled on seeds of its own."""
    learner = Learner(GPUS - 1, rate)
    case = {"load": load, "wave": wave, "seconds": seconds}
    for seed in TRAINING_SEEDS:
        _run(case, _setting("learned", rate), learner, PERTURBATIONS["none"], seed)
    learner.training = False
    return learner


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """The share of requests in time, of both kinds and of each."""
    learned = setting["how"] == "learned"
    given = (case["load"], case["wave"], case["seconds"], setting["margin"])
    learner = _trained(*given) if learned else None
    return _run(case, setting, learner, PERTURBATIONS[case["perturbed"]], seed)


def cases(quick: bool) -> Sequence[Case]:
    """Loads, how much they move, and what may mislead; at hardly any load every split does."""
    waves = (0.8,) if quick else (0.0, 0.8)
    loads = (0.5,) if quick else (0.5, 0.7)
    perturbed = ("none", "late") if quick else tuple(PERTURBATIONS)
    given = [(x, w, p) for x in loads for w in waves for p in perturbed] + [(0.02, 0.0, "none")]
    seconds = 20.0 if quick else 40.0
    return [{"load": x, "wave": w, "perturbed": p, "seconds": seconds} for x, w, p in given]


def _setting(how: str, margin: float, radio: int = 4) -> dict[str, object]:
    return {"how": how, "margin": margin, "radio": radio}


STUDY = Study(
    id="A45",
    system="HAF",
    family="policies",
    strength="direction",
    claims=[
        Claim("20.5 % more in time than the strongest other", 1.205, 1.205),
        Claim("90 % of requests in time", 0.90, 1.0, figure="in_time", where={"load": 0.5}),
        Claim("85.3 % of AI requests in time", 0.853, 1.0, figure="ai", where={"load": 0.5}),
    ],
    rests_on={
        "GPUs that change over in time": "simulator/live/pools.py",
        "a policy that picks request and GPU": "simulator/live/world.py",
    },
    cases=cases,
    sides={
        "learned split": [_setting("learned", rate) for rate in (0.1, 0.3, 0.6)],
        "fixed split": [_setting("fixed", 0.0, k) for k in range(1, GPUS)],
        "split by load": [_setting("greedy", margin) for margin in (1.0, 1.5, 2.0)],
        "due first": [_setting("due first", 0.0, k) for k in (1, 2, 3)],
    },
    idea="learned split",
    measure=measure,
    better=("in_time", "max"),
    health="in_time",
    gone=lambda case: bool(case["load"] == 0.02),
    ablate={"choosing anew": {"how": "fixed"}},
    predictions={
        "over 5 % more in time than a fixed split where loads move": lambda t: (
            least(t.gains("fixed split", wave=0.8, perturbed="none", load=0.5)) - 1.05
        ),
        "no better than the split by load": lambda t: (
            1.02 - most(t.gains("split by load", perturbed="none", load=0.5))
        ),
        "late telemetry takes the gain over a fixed split": lambda t: (
            1.05 - most(t.gains("fixed split", wave=0.8, perturbed="late", load=0.5))
        ),
        "90 % in time at half load": lambda t: (
            least(t.figure("in_time", load=0.5, perturbed="none")) - 0.9
        ),
    },
    decides="the split itself: in proportion to the load it is what a learner can find at best.",
    amended="After a trial late requests are given up, and the length of a run became a field of the "
    "cases.",
    cannot_say="What a language model adds as the agent, and radio functions with deadlines of their own.",
)
