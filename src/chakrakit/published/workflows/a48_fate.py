"""A48, FATE: workflows of model calls on devices that remember, scheduled by what a choice leaves behind.

A call needs its model on the device and its prompt in the cache; both stay there for the next call. A
policy picks (call, device) whenever a device is free (`resident_models.py`). The idea adds to a call's own
time the worth of the model that it drives out, less that of the one it brings, for calls still to come.
Comparators know the same state and the same calls, but look at the present one alone. A figure is the mean
over six draws of all workflows.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.workflows.model_calls import random_workflow
from chakrakit.published.workflows.resident_models import ResidentPolicy, run_workflow
from chakrakit.simulator import live


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds until all workflows have ended, and the 95th percentile of their ends, over several draws."""
    makespans, tails = [], []
    for draw in range(case["draws"]):
        rng = random.Random(f"{seed}/{draw}")
        flows = [random_workflow(rng, w, case["models"]) for w in range(case["workflows"])]
        pending = [call for flow in flows for call in flow]
        schedule = ResidentPolicy(setting["kind"], setting["keep"], pending, case["devices"])
        world = live.World(record=False, seed=seed)
        pool = world.pool("devices", case["devices"], policy=schedule)
        for number, flow in enumerate(flows):
            world.actor(run_workflow, flow, pool, schedule, name=f"workflow {number}")
        ends = sorted(world.run().returned.values())
        makespans.append(ends[-1])
        tails.append(ends[int(0.95 * (len(ends) - 1))])
    seconds = sum(makespans) / len(makespans)
    return {
        "seconds": seconds,
        "p95": sum(tails) / len(tails),
        "calls_per_second": case["workflows"] / seconds / case["devices"],
    }


def cases(quick: bool) -> Sequence[Case]:
    """Few and many devices for the models; with a single model there is nothing to keep."""
    small = ((4, 1, 16), (4, 4, 16), (8, 4, 30))
    full = ((4, 1, 30), (4, 4, 30), (8, 4, 30), (8, 6, 40))
    shapes = small if quick else full
    draws = 1 if quick else 6
    return [{"devices": d, "models": m, "workflows": w, "draws": draws} for d, m, w in shapes]


STUDY = Study(
    id="A48",
    system="FATE",
    family="workflows",
    strength="strong",
    claims=[
        Claim(
            "makespan 32.5 % below round robin",
            1 / 0.675,
            1 / 0.675,
            figure="gain over round robin",
        ),
        Claim("8.9 % below the strongest other policy", 1 / 0.911, 1 / 0.911),
    ],
    rests_on={
        "devices that keep a model and prefixes": "simulator/live/pools.py",
        "policies that pick call and device": "simulator/live/world.py",
        "rates of an H100": "machines/presets/dgx-h100.yaml",
    },
    cases=cases,
    sides={
        "FATE": [{"kind": "future", "keep": k} for k in (0.25, 0.5, 1.0)],
        "best heuristic": [
            {"kind": k, "keep": 0.0} for k in ("longest path", "locality", "prefix")
        ],
        "round robin": [{"kind": "round robin", "keep": 0.0}],
    },
    idea="FATE",
    untuned=["round robin"],
    measure=measure,
    judged_seeds=30,
    better=("seconds", "min"),
    health="calls_per_second",
    gone=lambda case: bool(case["models"] == 1),
    ablate={"what a choice leaves behind": {"keep": 0.0}},
    predictions={
        "at least 25 % below round robin with several models": lambda t: (
            least(t.gains("round robin", models=lambda m: m > 1)) - 1 / 0.75
        ),
        "0 to 10 % below the best heuristic": lambda t: np.minimum(
            1 / 0.9 - most(t.gains("best heuristic", models=lambda m: m > 1)),
            least(t.gains("best heuristic", models=lambda m: m > 1)) - 1,
        ),
        "no gain with one model": lambda t: 0.02 - most(abs(t.gains(models=1) - 1)),
    },
    decides="how long a model takes to load next to a call: the greedy heuristic already avoids most loads, "
    "and what is left to gain by looking ahead are the loads that it causes later.",
    amended="the policy's score gained the worth of the model that a choice brings in, after a first "
    "trial; cases were cut for time. Thirty seeds in place of five; that it is not above the best "
    "heuristic either was not tested before.",
    cannot_say="Batches of calls on one device, and times of calls that are not known beforehand.",
)
