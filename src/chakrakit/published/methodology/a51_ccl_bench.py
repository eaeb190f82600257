"""A51, CCL-Bench: what traces show that summary numbers do not, tried with seven plans on two machines.

Someone has to choose a plan. With traces, the plan with the shortest step on this machine is known; with a
published number it is the plan that was best elsewhere, or the one with the most overlap. The three claims
are figures of the same simulations: by how much more overlap misleads, what doubled links give on either
machine, and how far the best plans of two frameworks are apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.methodology.seven_plans import (
    MACHINES,
    OTHER,
    SHARDED,
    PlanStep,
    step,
    steps,
)


def known(case: Case, machine: str, seed: int, links: float | None = None) -> dict[str, PlanStep]:
    """The steps of all plans on a machine."""
    size, every = (case["batch"], case["layers"]), case["every"]
    return steps(machine, *size, links or case["links"], seed, every)


def chosen(case: Case, rule: str, seed: int) -> str:
    """The plan that a rule takes."""
    here = known(case, case["machine"], seed)
    if rule == "most overlap":
        return min(here, key=lambda p: here[p].exposed / here[p].communication)
    seen = known(case, OTHER[case["machine"]], seed) if rule == "other machine" else here
    return min(seen, key=lambda p: seen[p].seconds)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of the plan that a rule chooses; and, of all plans, what the claims are about."""
    here = known(case, case["machine"], seed)
    seconds = here[chosen(case, setting["rule"], seed)].seconds
    figures = {"seconds": seconds, "efficiency": min(s.seconds for s in here.values()) / seconds}
    if setting["rule"] != "here" or case["links"] > 1:
        return figures
    parts = [
        min(step.seconds for plan, step in here.items() if (plan in SHARDED) == sharded)
        for sharded in (True, False)
    ]
    gains = {m: _gain_of_links(case, m, seed) - 1 for m in MACHINES}
    shares = [(s.exposed / s.communication, s.seconds) for s in here.values()]
    misled = [b / a for x, a in shares for y, b in shares if y < x - 0.05]
    return {
        **figures,
        "frameworks_apart": max(parts) / min(parts),
        "tpu_over_gpu": gains["TPU"] / gains["GPU"],
        "overlap_misleads": max(misled, default=1.0),
    }


def _gain_of_links(case: Case, machine: str, seed: int) -> float:
    """What links of twice the bandwidth give to the plan that is best without them."""
    usual = known(case, machine, seed, 1.0)
    plan = min(usual, key=lambda p: usual[p].seconds)
    return (
        usual[plan].seconds / step(machine, plan, case["batch"], case["layers"], 2.0, seed).seconds
    )


def cases(quick: bool) -> Sequence[Case]:
    """Both machines with small and larger batches, and links so fast that compute decides."""
    layers, batches, every = (4, (16,), 2) if quick else (32, (16, 64), 1)
    usual = [
        {"machine": m, "batch": b, "layers": layers, "links": 1.0, "every": every}
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
        "doubling links gives TPUs at least twice what it gives GPUs": lambda t: (
            least(t.figure("tpu_over_gpu", links=1.0)) - 2
        ),
        "frameworks are up to 3 times apart": lambda t: (
            most(t.figure("frameworks_apart", links=1.0)) - 3
        ),
    },
    decides="the plan that is best: on TPUs a pipeline, which sends little and gains a few per cent of "
    "faster links; on GPUs sharded or replicated weights, whose sums also slow the computation beside them. "
    "Where overlap costs computation nothing, TPUs gain twice as much at the small batch. Two frameworks "
    "are less than 3 times apart, as here they differ in nothing but plans.",
    amended="the comparator, which was designed again after a first run; claims and predictions were not.",
    cannot_say="What real frameworks do on these machines: plans are generated, kernels a roofline.",
)
