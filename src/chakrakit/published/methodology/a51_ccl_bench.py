"""A51, CCL-Bench: what traces show that summary numbers do not, tried with seven plans on two machines.

Someone has to choose a plan. With traces, the plan with the shortest step on this machine is known; with a
published number it is the plan that was best elsewhere, or the one with the most overlap. The three claims
are figures of the same simulations: by how much more overlap misleads, what doubled links give on either
machine, and how far the best plans of two frameworks are apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chakrakit.arrays import F64
from chakrakit.published import Case, Claim, Figures, Judged, Setting, Study, least, most
from chakrakit.published.methodology.seven_plans import MACHINES, OTHER, PLANS, SHARDED, step, steps


def chosen(case: Case, rule: str, seed: int) -> str:
    """The plan that a rule takes."""
    size, links = (case["batch"], case["layers"]), case["links"]
    here, there = steps(case["machine"], *size, links, seed), OTHER[case["machine"]]
    if rule == "most overlap":
        return min(PLANS, key=lambda p: here[p].exposed / here[p].communication)
    known = steps(there, *size, links, seed) if rule == "other machine" else here
    return min(PLANS, key=lambda p: known[p].seconds)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of the plan that a rule chooses; and, of all plans, what the claims are about."""
    size = (case["batch"], case["layers"])
    here = steps(case["machine"], *size, case["links"], seed)
    seconds = here[chosen(case, setting["rule"], seed)].seconds
    figures = {"seconds": seconds, "efficiency": min(s.seconds for s in here.values()) / seconds}
    if setting["rule"] != "here" or case["links"] > 1:
        return figures
    names = list(PLANS)
    parts = [min(here[p].seconds for p in some) for some in (names[:SHARDED], names[SHARDED:])]
    gains = {m: _gain_of_links(m, *size, seed) - 1 for m in MACHINES}
    shares = [(s.exposed / s.communication, s.seconds) for s in here.values()]
    misled = [b / a for x, a in shares for y, b in shares if y < x - 0.05]
    return {
        **figures,
        "frameworks_apart": max(parts) / min(parts),
        "tpu_over_gpu": gains["TPU"] / gains["GPU"],
        "tpu_links": gains["TPU"],
        "gpu_links": gains["GPU"],
        "overlap_misleads": max(misled, default=1.0),
    }


def _gain_of_links(machine: str, batch: int, layers: int, seed: int) -> float:
    """What links of twice the bandwidth give to the plan that is best without them."""
    known = steps(machine, batch, layers, 1.0, seed)
    plan = min(PLANS, key=lambda p: known[p].seconds)
    return known[plan].seconds / step(machine, plan, batch, layers, 2.0, seed).seconds


def twice(t: Judged) -> F64:
    """What doubled links give TPUs, over twice what they give GPUs, with one sequence a device."""
    tpu, gpu = (t.figure(f"{kind}_links", links=1.0, batch=16) for kind in ("tpu", "gpu"))
    return least(tpu - 2 * gpu)


def cases(quick: bool) -> Sequence[Case]:
    """Both machines with small and larger batches, and links so fast that compute decides."""
    layers, batches = (4, (16,)) if quick else (32, (16, 64))
    usual = [
        {"machine": m, "batch": b, "layers": layers, "links": 1.0}
        for m in MACHINES
        for b in batches
    ]
    return [*usual, {**usual[-1], "links": 100.0}]


STUDY = Study(
    id="A51",
    system="CCL-Bench",
    family="methodology",
    strength="strong",
    claims=[
        Claim("more overlap can go with a longer step", 1.05, np.inf, figure="overlap_misleads"),
        Claim("doubled links give TPUs much more than GPUs", 2.0, np.inf, figure="tpu_over_gpu"),
        Claim("best plans of frameworks up to 3 times apart", 3.0, 3.0, figure="frameworks_apart"),
    ],
    rests_on={
        "communication beside compute": "simulator/engine/native.py",
        "collectives on switches and on tori": "simulator/collectives/choice.py",
        "plans of frameworks": "workloads/generate/generator.py",
    },
    cases=cases,
    sides={
        "traces of this machine": [{"rule": "here"}],
        "the best plan elsewhere": [{"rule": "other machine"}],
        "most overlap": [{"rule": "most overlap"}],
    },
    idea="traces of this machine",
    untuned=["most overlap"],
    measure=measure,
    better=("seconds", "min"),
    health="efficiency",
    gone=lambda case: bool(case["links"] > 1),
    ablate={"this machine's own steps": {"rule": "other machine"}},
    predictions={
        "more overlap goes with a longer step somewhere": lambda t: (
            most(t.figure("overlap_misleads", links=1.0)) - 1.05
        ),
        "doubling links gives TPUs at least twice what it gives GPUs": twice,
        "frameworks are up to 3 times apart": lambda t: (
            most(t.figure("frameworks_apart", links=1.0)) - 3
        ),
    },
    decides="the batch: with one sequence a device links decide on TPUs and compute on GPUs; with four, "
    "compute decides on both. Two frameworks are less than 3 times apart, as here they differ in "
    "nothing but plans.",
    cannot_say="What real frameworks do on these machines: plans are generated, kernels a roofline.",
)
