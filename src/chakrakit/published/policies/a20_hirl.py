"""A20, HiRL: one learner sets the power of edge devices and another places tasks on them.

Tasks arrive at three devices, one slow and thrifty, one between, one fast and hungry; each has three clocks.
What counts is latency and energy together, both as shares of what tasks need alone on the fast device. The
idea learns clocks from the load and places from lines, in two small tables. Comparators are one table for
both, a greedy choice, and clocks and shares that never change.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.policies.edge_devices import (
    CLOCKS,
    FREE_S,
    IDLE,
    SPEED,
    TASK_J,
    TASKS,
    EdgeSite,
)
from chakrakit.published.policies.learned import (
    PERTURBATIONS,
    TRAINING_SEEDS,
    Learner,
    Perturbation,
)
from chakrakit.simulator import live


def _run(
    load: float, setting: Setting, learners: Sequence[Learner], given: Perturbation, seed: int
) -> Figures:
    site, rng = EdgeSite(setting, learners, given, seed), random.Random(f"tasks {seed}")
    world, now = live.World(record=False, seed=seed), 0.0
    pools = [world.pool(f"device {d}") for d in range(3)]
    for number in range(TASKS):
        now += rng.expovariate(load * given.load * sum(SPEED))
        work, name = rng.expovariate(1.0), f"task {number}"
        world.actor(site.task, pools, work, name=name, at_ns=now * live.S)
    seconds = world.run().end_ns / live.S
    latency, joules = float(np.mean(site.latency)), site.joules + sum(IDLE) * seconds
    cost = latency / FREE_S + joules / TASKS / TASK_J
    return {"cost": cost, "joules": joules / TASKS, "speed": 1 / latency}


def _learners(load: float, setting: Setting) -> list[Learner]:
    """Tables that were filled on seeds of their own."""
    sizes = {"one": [9], "two": [3, 3]}.get(setting["how"], [])
    learners = [Learner(actions, setting["rate"]) for actions in sizes]
    for seed in TRAINING_SEEDS if learners else ():
        _run(load, setting, learners, PERTURBATIONS["none"], seed)
    for learner in learners:
        learner.training = False
    return learners


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Cost, and the speed and energy that it is made of."""
    learners = _learners(case["load"], setting)
    return _run(case["load"], setting, learners, PERTURBATIONS[case["perturbed"]], seed)


def cases(quick: bool) -> Sequence[Case]:
    """Loads, and what may mislead; hardly any load leaves nothing to choose but the thriftiest device."""
    loads = (0.2, 0.7)
    perturbed = ("none",) if quick else tuple(PERTURBATIONS)
    mixed = [{"load": x, "perturbed": p} for x in loads for p in perturbed]
    return [*mixed, {"load": 0.01, "perturbed": "none"}]


def _tables(how: str) -> list[dict[str, object]]:
    return [{"how": how, "rate": rate, "clock": 0.0, "skew": 0.0} for rate in (0.05, 0.1, 0.3)]


STUDY = Study(
    id="A20",
    system="HiRL",
    family="policies",
    strength="direction",
    claims=[
        Claim(
            "latency 28 % below a single learner", 1 / 0.72, 1 / 0.72, figure="gain over one table"
        ),
        Claim(
            "latency 24 % better than static at high load",
            1 / 0.76,
            1 / 0.76,
            figure="gain over best static",
            where={"load": 0.7},
        ),
        Claim(
            "energy up to 51 % lower at low load",
            1 / 0.49,
            1 / 0.49,
            figure="gain over best static",
            where={"load": 0.2},
        ),
    ],
    rests_on={
        "tasks placed when they arrive": "simulator/live/world.py",
        "lines in front of devices": "simulator/live/pools.py",
    },
    cases=cases,
    sides={
        "two tables": _tables("two"),
        "one table": _tables("one"),
        "greedy": [
            {"how": "greedy", "rate": 0.0, "clock": c, "skew": 0.0} for c in (0.1, 0.3, 1.0)
        ],
        "best static": [
            {"how": "fixed", "rate": 0.0, "clock": c, "skew": k}
            for c in CLOCKS
            for k in (0.5, 1.0, 2.0)
        ],
    },
    idea="two tables",
    measure=measure,
    better=("cost", "min"),
    health="speed",
    gone=lambda case: bool(case["load"] == 0.01),
    ablate={"learning": {"rate": 0.0}},
    predictions={
        "better than the best static choice at high load": lambda t: (
            least(t.gains("best static", load=0.7, perturbed="none")) - 1.02
        ),
        "no better than greedy": lambda t: 1.02 - most(t.gains("greedy", load=0.7)),
        "two tables learn no worse than one": lambda t: (
            least(t.gains("one table", perturbed="none")) - 0.98
        ),
        "late telemetry costs the learner more than noise": lambda t: (
            least(t.figure("cost", load=0.7, perturbed="late"))
            - most(t.figure("cost", load=0.7, perturbed="noisy"))
        ),
    },
    decides="lines: a greedy choice that sees them leaves a learner nothing but clocks to gain by; cost is "
    "latency and energy together, since either alone has a trivial best choice.",
    amended="a load between the two was left out, to keep the table small.",
    cannot_say="Deep learners with more state, and tasks that are refused.",
)
