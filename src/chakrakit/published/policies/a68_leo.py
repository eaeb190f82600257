"""A68, large and small models in low orbit: where a picture is looked at, learned while contacts move.

Twelve satellites take pictures; a small model is on board, a large one on the ground, which sees one
satellite at a time (`satellites.py`). The idea learns in a small table whether to stay, to relay, or to wait
for the satellite's own contact. Comparators take the way that is expected to be the shortest, or send a
fixed share to the ground, each tuned. What counts is the mean delay of an answer.
"""

from __future__ import annotations

import random
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
from chakrakit.published.policies.satellites import COUNT, Constellation, Satellite
from chakrakit.simulator import live

PICTURES = 150


def _run(
    case: Case, setting: Setting, learner: Learner | None, given: Perturbation, seed: int
) -> Figures:
    sky = Constellation(case, setting, learner, given, seed)
    ring = {"topology": "ring", "size": COUNT, "bandwidth": "200 Mb/s", "latency": "10 ms"}
    world, rng = live.World({"network": [ring]}, seed=seed, record=False), random.Random(f"{seed}")
    pools = [world.pool(f"board {s}") for s in range(COUNT)]
    pools += [world.pool("downlink"), world.pool("ground", 4)]
    for sat in range(COUNT):
        world.actor(Satellite(), rank=sat, name=f"sat {sat}")
    now = 0.0
    for number in range(PICTURES):
        now += rng.expovariate(case["rate"] * given.load)
        sat = rng.randrange(COUNT)
        name = f"picture {number}"
        world.actor(sky.picture, sat, pools, rank=sat, name=name, at_ns=now * live.S)
    world.run()
    delay = float(np.mean(sky.delays))
    return {"delay_s": delay, "p95_s": float(np.percentile(sky.delays, 95)), "speed": 1 / delay}


@cache
def _trained(rate: float, turn_s: float, step: float) -> Learner:
    """A table that was filled on seeds of its own."""
    learner, case = Learner(3, step), {"rate": rate, "turn_s": turn_s}
    for seed in TRAINING_SEEDS:
        _run(case, {"how": "learned", "value": step}, learner, PERTURBATIONS["none"], seed)
    learner.training = False
    return learner


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Mean delay of an answer, and its 95th percentile."""
    learned = setting["how"] == "learned"
    learner = _trained(case["rate"], case["turn_s"], setting["value"]) if learned else None
    return _run(case, setting, learner, PERTURBATIONS[case["perturbed"]], seed)


def cases(quick: bool) -> Sequence[Case]:
    """Pictures per second, seconds of a turn, and what may mislead; or contacts that never move."""
    turns = (120.0,) if quick else (60.0, 120.0)
    rates = (1.0,) if quick else (0.5, 1.5)
    perturbed = ("none", "late") if quick else tuple(PERTURBATIONS)
    mixed = [
        {"rate": x, "turn_s": t, "perturbed": p} for x in rates for t in turns for p in perturbed
    ]
    return [*mixed, {"rate": 0.1, "turn_s": 0.0, "perturbed": "none"}]


STUDY = Study(
    id="A68",
    system="Large and small models in low orbit",
    family="policies",
    strength="direction",
    claims=[Claim("service delay up to 31.85 % lower", 1 / 0.6815, 1 / 0.6815)],
    rests_on={
        "contacts that move on": "simulator/live/world.py",
        "pictures that share links between satellites": "simulator/live/planning.py",
        "lines on board and at the downlink": "simulator/live/pools.py",
    },
    cases=cases,
    sides={
        "learned ways": [{"how": "learned", "value": step} for step in (0.05, 0.1, 0.3)],
        "shortest expected": [{"how": "expected", "value": v} for v in (0.7, 1.0, 1.5)],
        "fixed share": [{"how": "shares", "value": v} for v in (0.25, 0.5, 0.75, 1.0)],
    },
    idea="learned ways",
    measure=measure,
    better=("delay_s", "min"),
    health="speed",
    gone=lambda case: bool(case["turn_s"] == 0),
    ablate={"learning": {"how": "shares", "value": 0.5}},
    predictions={
        "over 1.3 times better than a fixed share": lambda t: (
            least(t.gains("fixed share", perturbed="none", turn_s=lambda s: s > 0)) - 1.3
        ),
        "no better than the shortest expected way": lambda t: (
            1.02 - most(t.gains("shortest expected", perturbed="none"))
        ),
        "late telemetry costs the shortest way more than the table": lambda t: (
            least(t.gains("shortest expected", perturbed="late"))
            - most(t.gains("shortest expected", perturbed="none"))
        ),
        "no gain where contacts never move": lambda t: 1.02 - most(t.gains(turn_s=0.0)),
    },
    decides="lines at the downlink: whoever sees them does as well as a table that learned them.",
    cannot_say="Orbits, weather, and how good the answers of a small and a large model are.",
)
