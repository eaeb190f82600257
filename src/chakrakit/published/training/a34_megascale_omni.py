"""A34, MegaScale-Omni: encoders share the language model's ranks but not its plan, as mixtures drift.

Samples bring images or none, and the share drifts from step to step. Coupled, a replica encodes its own
samples under the language model's plan. Disaggregated, encoders have ranks of their own, as many for all
steps. Decoupled, all ranks encode images, the largest first, and tokens go to where they are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Literal

import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.training.sections import StepTime, part_of, step_time
from chakrakit.workloads.description import Lengths, Plan, Section, SectionGraph, Step

LLM, ENCODER = "llama3.1-8b", "vit-h-14"
SIZES = {64: (16, 2, 4), 4: (32, 1, 2)}
"""By ranks: the part of layers that models have, steps of a drift, and samples for each rank in a step; the
small one is for quick runs."""


@cache
def one_step(
    layout: str,
    tp: int,
    own: float,
    reorders: int,
    ranks: int,
    share: float,
    images: int,
    seed: int,
    step: int,
) -> StepTime:
    """A step of a mixture: the share of samples with images, and how many each of those has on average."""
    thin, _, each = SIZES[ranks]
    encoders = int(own * ranks)
    deal: Literal["turn", "size", "own"] = "size" if reorders else "turn"
    language = Section(
        model=part_of(LLM, thin),
        plan=Plan(tp=tp, dp=(ranks - encoders) // tp, data="none"),
        after=["vision"] if share else [],
        lengths=Lengths(),
    )
    sections = {"language": language}
    if share:
        plan = Plan(tp=tp, dp=ranks // tp, sequence_parallel=False, data="none")
        if layout != "coupled":
            plan = Plan(dp=encoders or ranks, data="none")
        sections["vision"] = Section(
            model=part_of(ENCODER, thin),
            plan=plan,
            share=share,
            lengths=Lengths(distribution="lognormal", mean=images, sigma=1.0),
            deal="own" if layout == "coupled" else deal,
            ranks_of="" if encoders else "language",
        )
    job = Step(
        seq=1024, global_batch=each * ranks, optimizer="none", clip=False, seed=seed, steps=step + 1
    )
    return step_time(SectionGraph(sections=sections, step=job), step)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Samples per second over all steps of a drift, and the share of peak that they reach."""
    ranks = case["ranks"]
    _, steps, each = SIZES[ranks]
    times = []
    for step in range(steps):
        drift = np.sin(2 * np.pi * (step + 0.5) / steps) * case["drift"]
        share = round(float(np.clip(case["images"] * (1 + drift), 0, 1)), 3)
        given = (setting["layout"], setting["tp"], setting["own"], setting["reorders"])
        times.append(one_step(*given, ranks, share, case["size"], seed, step))
    total = sum(t.seconds for t in times)
    reached = sum(t.seconds * t.reached for t in times) / total
    return {"rate": steps * each * ranks / total, "busy": reached}


def cases(quick: bool) -> Sequence[Case]:
    """Text alone, a steady mixture, and mixtures that drift, with more and larger images."""
    rows = [(0.0, 0.0, 1), (0.5, 0.9, 2), (0.3, 0.0, 1)]
    if not quick:
        rows += [(0.5, 0.9, 8)]
    names, ranks = ("images", "drift", "size"), 4 if quick else 64
    return [{**dict(zip(names, row, strict=True)), "ranks": ranks} for row in rows]


def way(layout: str, tp: int = 2, own: float = 0.0, reorders: int = 0) -> Setting:
    """A layout with the language model's degree, and where encoders have their own ranks their share."""
    return {"layout": layout, "tp": tp, "own": own, "reorders": reorders}


STUDY = Study(
    id="A34",
    system="MegaScale-Omni",
    family="training",
    strength="strong",
    claims=[Claim("1.27 to 7.57 times the throughput", 1.27, 7.57)],
    rests_on={
        "sections that share ranks, with plans of their own": "workloads/sections/joining.py",
        "what moves between sections": "workloads/layers/resharding.py",
        "samples dealt out in turn, by size, or each replica its own": "workloads/sections/dealing.py",
    },
    cases=cases,
    sides={
        "decoupled": [way("decoupled", tp, 0.0, 1) for tp in (1, 2)],
        "coupled": [way("coupled", tp) for tp in (1, 2)],
        "apart": [way("apart", 1, own) for own in (0.25, 0.5)],
        "coupled, degree 4": [way("coupled", 4)],
    },
    idea="decoupled",
    untuned=["coupled, degree 4"],
    measure=measure,
    better=("rate", "max"),
    health="busy",
    gone=lambda case: bool(case["images"] == 0.0),
    ablate={"reordering": {"reorders": 0}, "decoupling": {"layout": "coupled", "reorders": 0}},
    predictions={
        "nothing is gained for text alone": lambda t: 0.02 - most(abs(t.gains(images=0.0) - 1)),
        "the gain grows as mixtures drift": lambda t: (
            least(t.gains(drift=0.9)) - most(t.gains(images=0.3))
        ),
        "against a weak plan it is several times as large": lambda t: (
            least(t.gains("coupled, degree 4", drift=0.9)) - 1.5
        ),
    },
    shows={
        "static part": lambda t: (
            t.gains() * t.figure("rate", "without reordering") / t.figure("rate")
        ),
        "dynamic part": lambda t: t.figure("rate") / t.figure("rate", "without reordering"),
    },
    decides="what it is held against: the best static plan is much closer than a weak one.",
    amended="First measured with sections' times put together by hand; the predictions are those of then. "
    "All figures are now from steps of 64 ranks that are simulated end to end, with fewer layers, steps and "
    "cases than were first planned, because a whole run took too long.",
    cannot_say="Overlap of encoding with the language model's pipeline, and thousands of devices; models "
    "have a sixteenth of their layers.",
)
