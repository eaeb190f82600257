"""A60, LeDRL: offloading under failures, learned with a prior that knows which nodes to trust.

Tasks with a deadline go to one of four nodes, of which the faster fail more often, or stay on the device
itself (`failing_nodes.py`). The idea learns in a small table that begins with a rule of thumb, in place of a
language model's advice. Comparators are the same table without it, a greedy choice by expected end and
known risk, and shares that never change. What counts is the share of tasks that end in time.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence

import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.policies.failing_nodes import FAILS, LOCAL, SPEED, EdgeNodes
from chakrakit.published.policies.learned import (
    PERTURBATIONS,
    TRAINING_SEEDS,
    Learner,
    Perturbation,
)
from chakrakit.simulator import live

TASKS = 250


def _advice(state: Hashable, node: int) -> float:
    """What the rule of thumb expects: in time if the line is short, and rather not where nodes fail."""
    assert isinstance(state, tuple)
    in_time = (0.95, 0.6, 0.0)[state[node]]
    return in_time / (1 + 0.1 * (*FAILS, 0.0)[node])


def _run(
    case: Case, setting: Setting, learner: Learner | None, given: Perturbation, seed: int
) -> Figures:
    nodes, rng = EdgeNodes(case, setting, learner, given, seed), random.Random(f"tasks {seed}")
    world, now = live.World(record=False, seed=seed), 0.0
    pools = [world.pool(f"node {n}") for n in range(len(SPEED) + 1)]
    for number in range(TASKS):
        now += rng.expovariate(case["load"] * given.load * (sum(SPEED) + LOCAL))
        work, name = rng.expovariate(1.0), f"task {number}"
        world.actor(nodes.task, pools, work, name=name, at_ns=now * live.S)
    world.run()
    return {"success": float(np.mean(nodes.succeeded))}


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """The share of tasks that ended in time."""
    learner = None
    if setting["how"] == "learned":
        prior = _advice if setting["advised"] else None
        learner = Learner(len(SPEED) + 1, setting["value"], prior)
        for number in TRAINING_SEEDS:
            _run(case, setting, learner, PERTURBATIONS["none"], number)
        learner.training = False
    return _run(case, setting, learner, PERTURBATIONS[case["perturbed"]], seed)


def cases(quick: bool) -> Sequence[Case]:
    """Failures per minute of the node that has one per unit, loads, and what may mislead; or no failures."""
    rates = (2.0, 6.0) if quick else (0.5, 2.0, 6.0)
    perturbed = ("none",) if quick else tuple(PERTURBATIONS)
    mixed = [{"failures": f, "load": 0.5, "perturbed": p} for f in rates for p in perturbed]
    return [*mixed, {"failures": 0.0, "load": 0.2, "perturbed": "none"}]


def _setting(how: str, value: float, advised: bool = False) -> dict[str, object]:
    return {"how": how, "value": value, "advised": advised}


STUDY = Study(
    id="A60",
    system="LeDRL",
    family="policies",
    strength="direction",
    claims=[Claim("over 17 % more tasks succeed", 1.17, 1.17)],
    rests_on={
        "work that is lost with its node": "simulator/live/verbs.py",
        "lines in front of nodes": "simulator/live/pools.py",
    },
    cases=cases,
    sides={
        "advised learner": [_setting("learned", rate, True) for rate in (0.05, 0.1, 0.3)],
        "learner": [_setting("learned", rate) for rate in (0.05, 0.1, 0.3)],
        "greedy": [_setting("greedy", careful) for careful in (0.0, 0.1, 0.3, 1.0)],
        "fixed shares": [_setting("fixed", lean) for lean in (0.0, 0.5, 1.0, 3.0)],
    },
    idea="advised learner",
    measure=measure,
    better=("success", "max"),
    health="success",
    gone=lambda case: bool(case["failures"] == 0),
    ablate={"advice and learning": {"how": "fixed", "value": 0.0}},
    predictions={
        "over 17 % more than fixed shares with 6 failures a minute": lambda t: (
            least(t.gains("fixed shares", failures=6.0, perturbed="none")) - 1.17
        ),
        "less than 5 % more than a greedy choice that knows the risks": lambda t: (
            1.05 - most(t.gains("greedy"))
        ),
        "advice helps a learner that has seen few tasks": lambda t: (
            least(t.gains("learner", failures=6.0)) - 1.0
        ),
        "no gain without failures": lambda t: 1.02 - most(t.gains(failures=0.0)),
    },
    decides="the risks: where they are known a greedy choice weighs them as well as a table does.",
    cannot_say="What advice a language model gives, and learners with more state.",
)
