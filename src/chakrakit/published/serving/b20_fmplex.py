"""B20, FMplex: tasks with small extensions share one backbone, batched across tasks, in a fair order.

A request is one item of a batch. A batch takes a fixed time for the backbone's weights, more for each item
and for each task in it. Partitions give every task a backbone of its own and a part of the device, which is
slower by their number. Co-location shares one backbone and takes requests as they come. One tenant may be
noisy: it sends many times what each of the others sends, and the latency that counts is the others'.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.serving.tenants import FairShare, OwnPartition
from chakrakit.serving import Service
from chakrakit.serving.requests import RequestStream, stream_of

BACKBONE, DEVICE = 1.2e9, 24e9
"""Bytes of a backbone (300 million parameters in fp32) and of a device's memory."""
FIXED, ITEM, TASK = 4e-3, 0.5e-3, 0.2e-3
"""Seconds of a batch: for the weights, for each item, for each task in it."""


@cache
def requests(tasks: int, rate: float, noisy: float, count: int, seed: int) -> RequestStream:
    """Poisson arrivals over tasks; the first sends `noisy` times what each other one sends."""
    rng = np.random.default_rng([seed, 20])
    share = np.ones(tasks)
    share[0] *= noisy
    arrival = np.cumsum(rng.exponential(1 / rate, count))
    task = rng.choice(tasks, count, p=share / share.sum())
    return stream_of(arrival, np.ones(count), np.ones(count), adapter=task)


def service(engines: int, slowdown: float, batch: int, per_task: float) -> Service:
    """Engines that run one batch of items after another."""
    return Service(
        lambda items, tasks: slowdown * (FIXED + ITEM * items) + per_task * len(tasks),
        max_items=batch,
        engines=engines,
        name="backbone",
    )


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Mean latency of the tasks that are not noisy, and how many times as many tasks have room."""
    tasks, batch = case["tasks"], setting["batch"]
    stream = requests(tasks, case["rate"], case["noisy"], case["requests"], seed)
    if setting["share"] == "partitions":
        served = service(tasks, tasks, batch, 0.0).served(stream, policy=OwnPartition())
    else:
        fair = FairShare() if setting["share"] == "fair" else None
        served = service(1, 1, batch, TASK).served(stream, policy=fair)
    done = served.outcome.requests
    finish, arrival = (np.asarray(done[name]) * 1e-12 for name in ("finish", "arrival"))
    seconds = float((finish - arrival)[stream.adapter != 0].mean())
    hosted = ((DEVICE - BACKBONE) // case["extension"]) / (DEVICE // (BACKBONE + case["extension"]))
    fits = {} if setting["share"] == "partitions" else {"tasks_hosted": hosted}
    return {"seconds": seconds, "kept_up": float(arrival.max() / finish.max()), **fits}


def cases(quick: bool) -> Sequence[Case]:
    """Low and high load, with and without a noisy tenant, and large extensions."""
    count = 150 if quick else 1500
    loads = [(4, 50, 1), (4, 800, 1), (4, 1500, 20)]
    if not quick:
        loads = [
            (n, r, x) for n in (4, 12, 19) for r, x in ((50, 1), (400, 1), (800, 1), (1500, 20))
        ]
    return [
        {
            "tasks": n,
            "rate": r,
            "noisy": x,
            "extension": 0.05e9 * (1 + 3 * (r == 50)),
            "requests": count,
        }
        for n, r, x in loads
    ]


BATCHES = (8, 32, 64)
STUDY = Study(
    id="B20",
    system="FMplex",
    family="serving",
    strength="strong",
    claims=[
        Claim("latency 80 % less than with partitions", 5.0, 5.0, figure="gain over partitions"),
        Claim(
            "latency 33.3 % less than with co-location", 1.5, 1.5, figure="gain over co-location"
        ),
        Claim("up to 6 times as many tasks", 6.0, np.inf, figure="tasks_hosted"),
    ],
    rests_on={
        "batches whose time depends on what is in them": "serving/service.py",
        "the order in which requests are taken": "serving/policies.py",
    },
    cases=cases,
    sides={
        "FMplex": [{"share": "fair", "batch": b} for b in BATCHES],
        "partitions": [{"share": "partitions", "batch": b} for b in BATCHES],
        "co-location": [{"share": "as they come", "batch": b} for b in BATCHES],
    },
    idea="FMplex",
    measure=measure,
    better=("seconds", "min"),
    health="kept_up",
    gone=lambda case: bool(case["rate"] == 50),
    ablate={"fair order": {"share": "as they come"}},
    predictions={
        "tasks hosted = memory / extension in place of memory / backbone": lambda t: (
            most(t.figure("tasks_hosted")) - 6
        ),
        "batching gains at high load only": lambda t: 1.02 - most(t.gains("co-location", rate=50)),
        "a noisy tenant hurts co-location, not fair queueing": lambda t: (
            least(t.gains("co-location", noisy=20)) - 1.5
        ),
    },
    decides="how much of the load is the noisy tenant's: with 19 tasks it sends half of all requests, and a "
    "fair order saves the others a quarter of their time where it saves half with 4 or 12.",
    cannot_say="Times of real backbones and extensions, which are assumed, and what they do to accuracy.",
)
