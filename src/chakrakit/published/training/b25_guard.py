"""B25, Guard: nodes are swept before they are let in and watched while they work, against functional checks.

Some nodes of a pool are slow and pass every functional check. One of them slows a whole synchronous job. Runs
one after another take nodes from the pool; a sweep keeps slow ones out, a monitor takes those out that become
slow later. What either half brings alone is a comparator.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from chakrakit.arrays import F64
from chakrakit.campaigns import Guarding, Pool, PoolPlan, pool_run
from chakrakit.published import Case, Claim, Figures, Judged, Setting, Study, least, most

JOB, RUNS, DAY = 64, 20, 86_400.0
LIMITS = (1.02, 1.03, 1.05)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Useful share of the time over runs of a day, and how much step times vary between runs."""
    plan = PoolPlan(
        nodes=case["pool"],
        slow_share=case["slow"],
        onsets_per_day=case["onsets"],
        most=case["most"],
    )
    pool = Pool(plan, np.random.default_rng([seed, case["pool"]]))
    guarding = Guarding(sweep_limit=setting["sweep"], monitor_limit=setting["monitor"])
    runs = []
    for _ in range(RUNS):
        pool.age(DAY / 4)  # between runs
        runs.append(pool_run(pool, JOB, DAY, guarding))
    slowness = np.array([r.slowness for r in runs])
    healthy = pool.excluded & (pool.factor == 1.0)
    return {
        "useful": float(np.mean([r.useful for r in runs])),
        "cv": float(slowness.std() / slowness.mean()),
        "wrongly": float(healthy.sum() / plan.nodes),
    }


def cases(quick: bool) -> Sequence[Case]:
    """No slow nodes, a few, and many."""
    shares = ((0.0, 0.0), (0.02, 0.001), (0.05, 0.003))
    sizes = ((96, 1.5),) if quick else ((96, 1.5), (96, 2.0), (128, 1.5))
    return [
        {"pool": pool, "most": most_slow, "slow": slow, "onsets": onsets}
        for pool, most_slow in sizes
        for slow, onsets in shares
    ]


def way(sweep: float, monitor: float) -> Setting:
    """Limits of both halves; 0 leaves one out."""
    return {"sweep": sweep, "monitor": monitor}


def cv_of(side: str, table: Judged) -> F64:
    """How much the step times of a side's runs vary, by case and seed; twenty runs each."""
    return table.figure("cv", side)


STUDY = Study(
    id="B25",
    system="Guard",
    family="training",
    strength="strong",
    claims=[
        Claim("mean utilization up to 1.7 times", 1.7, 1.7, figure="gain over functional checks"),
        Claim("variance between runs falls to 1 %", 0.0, 0.02, figure="cv"),
    ],
    rests_on={
        "a pool of nodes that are slow in secret": "campaigns/pool.py",
        "sweeps, monitors and a list of exclusions": "campaigns/pool.py",
        "a step as slow as its slowest node": "campaigns/pool.py",
    },
    cases=cases,
    sides={
        "Guard": [way(x, x) for x in LIMITS],
        "sweep alone": [way(x, 0.0) for x in LIMITS],
        "monitor alone": [way(0.0, x) for x in LIMITS],
        "functional checks": [way(0.0, 0.0)],
    },
    idea="Guard",
    untuned=["functional checks"],
    measure=measure,
    better=("useful", "max"),
    health="useful",
    gone=lambda case: bool(case["slow"] == 0.0),
    ablate={"the sweep": {"sweep": 0.0}, "the monitor": {"monitor": 0.0}},
    predictions={
        "functional checks lose a third to slow nodes": lambda t: (
            least(t.gains("functional checks", slow=0.05)) - 1.3
        ),
        "runs vary by 2 % at most": lambda t: 0.02 - most(t.figure("cv")),
        "both halves are better than either": lambda t: least(t.gains(slow=0.05)) - 1.0,
        "at most 2 % of healthy nodes are put on the list": lambda t: (
            0.02 - most(t.figure("wrongly"))
        ),
    },
    shows={
        f"variation, {side}": partial(cv_of, side)
        for side in ("Guard", "sweep alone", "monitor alone", "functional checks")
    },
    decides="the monitor: it finds what a sweep would have found soon after a run has begun, so that the "
    "other half adds little.",
    cannot_say="How slow real nodes are and how many: shares, factors and onsets are assumptions.",
)
