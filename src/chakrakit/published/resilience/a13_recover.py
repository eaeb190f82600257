"""A13, ReCoVer: training goes on inside the step in which nodes fail, against checkpoint and restart.

Nodes of a job of 64 are lost for good, one after another, at times that the seed draws. With restart, the job
falls back to its last checkpoint each time and starts again on what is left; how often it writes one is its
choice. With recovery inside the step the others redo the micro-batches of the lost node and go on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from chakrakit.campaigns import campaign, read_job
from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most

NODES = 64
"""Of 8 GPUs: the 512 of the publication."""
STEP_SECONDS = 8.0
HOURS = 234 / 64
"""The time of the comparison in the publication, 234 GPU-hours on 64 GPUs."""


@cache
def losses(count: int, seed: int) -> str:
    """A log of nodes that are lost, in a file as a job wants it; gone with the process."""
    hours = np.sort(np.random.default_rng([seed, count]).uniform(0, HOURS, count))
    rows = "".join(f"{hour:.5f},{2 * i}\n" for i, hour in enumerate(hours))
    path = Path(tempfile.mkdtemp()) / "losses.csv"
    path.write_text(f"hour,node\n{rows}")
    return str(path)


def recovery(case: Case, policy: str) -> dict[str, Any]:
    """What is done about a loss."""
    if policy == "restart":
        costs = {"detection_seconds": 30, "restart_seconds": case["restart_s"]}
        return {"policy": "elastic", "min_nodes": 1, **costs}
    return {"policy": "in_step", "min_nodes": 1, "detection_seconds": 5, "rejoin_seconds": 10}


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Steps done in the given time."""
    job = read_job(
        {
            "step_seconds": STEP_SECONDS,
            "days": HOURS / 24,
            "cluster": {"nodes": NODES, "spares": 0, "repair_hours": 100_000},
            "failures": {"log": losses(case["lost"], seed)},
            "checkpoint": {"interval_steps": setting["every"], "seconds": case["write_s"]},
            "recovery": recovery(case, setting["policy"]),
        }
    )
    result = campaign(job, histories=1, changes=False)
    return {"steps": result.steps, "effective": result.effective_ratio.mean}


def cases(quick: bool) -> Sequence[Case]:
    """Few and many losses, with cheap and with costly checkpoints and restarts."""
    costs = ((60, 2), (300, 20), (900, 60), (1800, 120))
    pairs = [(2, costs[0]), (8, costs[1]), (32, costs[2])]
    if not quick:
        pairs = [(lost, cost) for lost in (2, 8, 32) for cost in costs]
    return [{"lost": lost, "restart_s": r, "write_s": w} for lost, (r, w) in pairs]


INTERVALS = (20, 50, 100, 200, 400)
STUDY = Study(
    id="A13",
    system="ReCoVer",
    family="resilience",
    strength="strong",
    claims=[
        Claim("2.23 times the effective throughput after successive failures", 2.23, 2.23),
        Claim("74.9 % more tokens in the same time", 1.749, 1.749),
    ],
    rests_on={
        "work lost since a checkpoint": "campaigns/history.py",
        "recovery inside a step": "campaigns/recovery.py",
        "steps on fewer nodes": "campaigns/recovery.py",
    },
    cases=cases,
    sides={
        "ReCoVer": [{"policy": "in step", "every": e} for e in INTERVALS],
        "restart, tuned": [{"policy": "restart", "every": e} for e in (*INTERVALS, 1000)],
        "restart, every 100 steps": [{"policy": "restart", "every": 100}],
        "restart, every 400 steps": [{"policy": "restart", "every": 400}],
    },
    idea="ReCoVer",
    untuned=["restart, every 100 steps", "restart, every 400 steps"],
    measure=measure,
    better=("steps", "max"),
    health="effective",
    gone=lambda case: bool(case["lost"] == 2 and case["restart_s"] == 60),
    ablate={"recovery inside the step": {"policy": "restart"}},
    predictions={
        "the gap grows with failures": lambda t: least(t.gains(lost=32)) - most(t.gains(lost=2)),
        "the gap grows with the checkpoint interval": lambda t: least(
            t.gains("restart, every 400 steps", restart_s=300)
            - t.gains("restart, every 100 steps", restart_s=300)
        ),
        "the gap grows with restart cost": lambda t: (
            most(t.gains(lost=32, restart_s=1800)) - most(t.gains(lost=32, restart_s=60))
        ),
        "gone with rare failures and cheap checkpoints": lambda t: (
            1.02 - most(t.gains(lost=2, restart_s=60))
        ),
    },
    decides="how long a restart takes against the time between failures: the claimed figures are reached "
    "where that leaves restarting less than half of its own best.",
    cannot_say="Whether gradients stay the same: that follows from the constant number of micro-batches, and "
    "is not simulated. The time of a step with fewer nodes is taken to be inversely proportional to them.",
)
