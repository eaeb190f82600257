"""A18, Maestro: every section of a compound model has its own plan, and samples go on when they are ready.

A teacher or an encoder feeds a model that trains; some samples skip it. One plan for all sections uses the
degree that the largest needs for the smallest too. Plans by section use fewer devices for the same rate; a
wavefront lets samples that skip a section pass those that wait in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.training.sections import flow_seconds, section_seconds, spread

MODELS = {
    "70B teaches 1B": ("llama3.1-70b", "llama3.2-1b"),
    "8B teaches 1B": ("llama3.1-8b", "llama3.2-1b"),
    "one section": ("", "llama3.1-8b"),
}
LEAST_TP = {"llama3.1-70b": 4, "llama3.1-8b": 1, "llama3.2-1b": 1}
"""Devices of 80 GB that hold a section's weights in bf16, and where it trains its optimizer in part."""
SAMPLES, GPUS = 48, 64


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Samples per second and device, how busy the busier group is, and what the wavefront alone brings."""
    feeder, trained = MODELS[case["sections"]]
    rng = np.random.default_rng([seed, SAMPLES])
    needs = rng.random(SAMPLES) < case["share"]
    sizes = spread(SAMPLES, 0.5, rng)
    last_tp = setting["tp"] if setting["alike"] else setting["last"]
    if not feeder:
        tp = max(setting["tp"], LEAST_TP[trained]) if setting["alike"] else last_tp
        took = section_seconds(trained, tp, True) * tp * sizes.sum() / GPUS
        return {"rate": SAMPLES / took / GPUS, "busy": 1.0, "dynamic": 1.0}
    first_tp = max(setting["tp"], LEAST_TP[feeder])
    last_tp = first_tp if setting["alike"] else max(last_tp, LEAST_TP[trained])
    first = section_seconds(feeder, first_tp, False) * first_tp
    last = section_seconds(trained, last_tp, True) * last_tp
    fronts = range(first_tp, GPUS, first_tp)
    front = min(fronts, key=lambda n: max(first * case["share"] / n, last / (GPUS - n)))
    parts = first / front * sizes, last / (GPUS - front) * sizes
    took, waiting = (
        flow_seconds(*parts, needs, order) for order in (bool(setting["ordered"]), True)
    )
    work = max(float(parts[0][needs].sum()), float(parts[1].sum()))
    return {"rate": SAMPLES / took / GPUS, "busy": work / took, "dynamic": waiting / took}


def cases(quick: bool) -> Sequence[Case]:
    """Sections that differ much or little, all samples through both or some, and one section."""
    found = [
        {"sections": "70B teaches 1B", "share": 1.0},
        {"sections": "70B teaches 1B", "share": 0.5},
    ]
    found += [{"sections": "one section", "share": 1.0}]
    return (
        found
        if quick
        else [*found, *({"sections": "8B teaches 1B", "share": x} for x in (1.0, 0.5))]
    )


def way(tp: int, last: int, alike: int, ordered: int) -> Setting:
    """Degrees of the two sections, whether they share one, and whether samples stay in order."""
    return {"tp": tp, "last": last, "alike": alike, "ordered": ordered}


STUDY = Study(
    id="A18",
    system="Maestro",
    family="training",
    strength="strong",
    claims=[Claim("about 40 % fewer GPUs", 1.4, 1.8)],
    rests_on={
        "time of a section under a plan": "workloads/generate/programs.py",
        "samples that run when they are ready": "simulator/engine/planner.py",
        "samples that skip a section": "published/training/sections.py",
    },
    cases=cases,
    sides={
        "Maestro": [way(tp, 1, 0, 0) for tp in (1, 2, 4, 8)],
        "one plan": [way(tp, tp, 1, 1) for tp in (1, 2, 4, 8)],
    },
    idea="Maestro",
    measure=measure,
    better=("rate", "max"),
    health="busy",
    gone=lambda case: bool(case["sections"] == "one section"),
    ablate={"plans by section and the wavefront": {"alike": 1, "ordered": 1}},
    predictions={
        "most of the gain is static": lambda t: least(
            t.gains(sections="70B teaches 1B", share=1.0)
            - t.figure("dynamic", sections="70B teaches 1B", share=1.0)
        ),
        "the wavefront adds something where samples skip": lambda t: (
            least(t.figure("dynamic", share=0.5)) - 1.02
        ),
        "both vanish for one section": lambda t: (
            0.02 - most(abs(t.gains(sections="one section") - 1))
        ),
    },
    decides="how badly the small section suffers from the degree that the large one needs.",
    amended="After the first run: the idea's settings, how devices are split between sections and the "
    "ablation were changed, and sides without tuning became a figure instead of comparators.",
    cannot_say="The production jobs of the publication, and what moving weights between plans costs.",
)
