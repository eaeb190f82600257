"""A13, ReCoVer: training goes on inside the step in which nodes fail, against checkpoint and restart.

Nodes of a job of 64 are lost for good, one after another, at times that the seed draws. With restart, the job
falls back to its last checkpoint each time and starts again on what is left; how often it writes one is its
choice. With recovery inside the step the others redo the micro-batches of the lost node and go on. Steps on
fewer nodes are simulated with the quotas of micro-batches that are left to each.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from chakrakit.campaigns import campaign, read_job
from chakrakit.machines import load_machine
from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.tools import seconds_of
from chakrakit.workloads.description import Plan, Samples, Step, Workload
from chakrakit.workloads.generate import generate
from chakrakit.workloads.models import model_named

NODES = 64
"""Of 8 GPUs: the 512 of the publication."""
STEP_SECONDS = 8.0
QUOTA = 8
"""Micro-batches of a node in a step of all nodes; the batch stays the same when nodes are lost."""
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


@cache
def seconds_with(micro_batches: int) -> float:
    """A simulated step of eight replicas, half of which have one micro-batch less than the others."""
    quotas = [micro_batches] * 4 + [micro_batches - 1] * 4
    step = Step(seq=2048, global_batch=8, samples=Samples(batcher="fixed", quotas=quotas))
    model = model_named("llama3.2-1b").replace(layers=1)
    workload = Workload(model=model, plan=Plan(dp=8), step=step)
    return seconds_of(generate(workload), load_machine("dgx-h100"))


@cache
def steps_by_nodes() -> dict[int, float]:
    """Seconds of a step on fewer nodes: whole micro-batches, of which the fullest node has the most."""
    fullest = {n: -(-NODES * QUOTA // n) for n in range(NODES // 2, NODES)}
    return {
        n: STEP_SECONDS * seconds_with(most_of) / seconds_with(QUOTA)
        for n, most_of in fullest.items()
    }


def recovery(case: Case, policy: str) -> dict[str, Any]:
    """What is done about a loss."""
    common = {"min_nodes": 1, "step_seconds_by_nodes": steps_by_nodes()}
    if policy == "restart":
        costs = {"detection_seconds": 30, "restart_seconds": case["restart_s"]}
        return {"policy": "elastic", **common, **costs}
    return {"policy": "in_step", **common, "detection_seconds": 5, "rejoin_seconds": 10}


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
        "steps on fewer nodes": "workloads/samples/dealing.py",
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
    amended="The time of a step on fewer nodes was first taken to be inversely proportional to them; now it "
    "is that of simulated steps with whole micro-batches, for all sides.",
    cannot_say="Whether gradients stay the same: that follows from the constant number of micro-batches, and "
    "is not simulated.",
)
