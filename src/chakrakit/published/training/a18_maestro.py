"""A18, Maestro: every section of a compound model has its own plan, and samples go on when they are ready.

A teacher feeds a model that trains; some samples skip it. One plan for all sections uses the degree that the
largest needs for the smallest too. Plans by section use fewer devices for the same rate; a wavefront lets
samples that skip a section pass those that wait in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Literal

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.training.sections import StepTime, part_of, step_time
from chakrakit.workloads.description import Plan, Section, SectionGraph, Step

MODELS = {
    "70B teaches 1B": ("llama3.1-70b", "llama3.2-1b"),
    "8B teaches 1B": ("llama3.1-8b", "llama3.2-1b"),
    "one section": ("", "llama3.1-8b"),
}
Order = Literal["fifo", "wavefront"]
LEAST_TP = {"llama3.1-70b": 4, "llama3.1-8b": 1}
"""Devices of 80 GB that hold a teacher's weights in bf16."""
EACH = {64: 3, 8: 1}
"""Samples for each rank of a job, and of the small one that a quick run has."""


@cache
def step_of(
    sections: str,
    ranks: int,
    share: float,
    tp: int,
    last: int,
    front: float,
    order: Order,
    seed: int,
) -> StepTime:
    """A step with a teacher of degree `tp` on a part of the ranks, or on all beside the student."""
    feeder, trained = MODELS[sections]
    thin = 8 if ranks == 64 else 40
    samples = EACH[ranks] * ranks
    step = Step(seq=1024, global_batch=samples, optimizer="none", clip=False, seed=seed)
    first = int(front * ranks) // tp * tp if feeder else 0
    student = Section(
        model=part_of(trained, thin),
        plan=Plan(tp=last, dp=(ranks - first) // last, data="none"),
        after=["teacher"] if feeder else [],
        ranks_of="teacher" if feeder and not first else "",
    )
    if not feeder:
        return step_time(SectionGraph(sections={"student": student}, step=step, order=order))
    teacher = Section(
        model=part_of(feeder, thin),
        plan=Plan(tp=tp, dp=(first or ranks) // tp, data="none"),
        trains=False,
        share=share,
    )
    graph = SectionGraph(sections={"teacher": teacher, "student": student}, step=step, order=order)
    return step_time(graph)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Samples per second and device, the share of peak, and what the wavefront alone brings."""
    tp = max(setting["tp"], LEAST_TP.get(MODELS[case["sections"]][0], 1))
    last = tp if setting["alike"] else setting["last"]
    if not MODELS[case["sections"]][0]:
        tp = last = setting["tp"]
    given = (case["sections"], case["ranks"], case["share"], tp, last, setting["front"])
    order: Order = "fifo" if setting["ordered"] else "wavefront"
    mine, waiting = (step_of(*given, which, seed) for which in (order, "fifo"))
    rate = EACH[case["ranks"]] / mine.seconds
    return {"rate": rate, "busy": mine.reached, "dynamic": waiting.seconds / mine.seconds}


def cases(quick: bool) -> Sequence[Case]:
    """Sections that differ much or little, all samples through both or some, and one section."""
    names = list(MODELS)
    ranks = 8 if quick else 64
    found = [{"sections": n, "share": 0.5, "ranks": ranks} for n in names]
    whole = [{"sections": n, "share": 1.0, "ranks": ranks} for n in names if " teaches " in n]
    return found if quick else [*found, *whole]


def way(tp: int, last: int, front: float, alike: int, ordered: int) -> Setting:
    """Degrees of both sections, the teacher's part of the ranks (0: all), and whether order is kept."""
    return {"tp": tp, "last": last, "front": front, "alike": alike, "ordered": ordered}


FRONTS = (0.0, 0.5)
STUDY = Study(
    id="A18",
    system="Maestro",
    family="training",
    strength="strong",
    claims=[Claim("about 40 % fewer GPUs", 1.4, 1.8)],
    rests_on={
        "sections with plans and ranks of their own": "workloads/sections/programs.py",
        "what moves between sections": "workloads/layers/resharding.py",
        "samples that skip a section, and their order": "workloads/sections/dealing.py",
    },
    cases=cases,
    sides={
        "Maestro": [way(tp, 1, front, 0, 0) for tp in (1, 8) for front in FRONTS],
        "one plan": [way(tp, tp, front, 1, 1) for tp in (1, 8) for front in FRONTS],
    },
    idea="Maestro",
    measure=measure,
    better=("rate", "max"),
    health="busy",
    gone=lambda case: bool(case["sections"] == "one section"),
    ablate={"plans by section": {"alike": 1}},
    predictions={
        "most of the gain is static": lambda t: least(
            t.gains(sections="70B teaches 1B", share=1.0)
            - t.figure("dynamic", sections="70B teaches 1B", share=1.0)
        ),
        "the wavefront adds something where samples skip": lambda t: (
            least(t.figure("dynamic", share=0.5, sections=lambda s: " teaches " in s)) - 1.02
        ),
        "both vanish for one section": lambda t: (
            0.02 - most(abs(t.gains(sections="one section") - 1))
        ),
    },
    shows={
        "static part": lambda t: t.gains() / t.figure("dynamic"),
        "dynamic part": lambda t: t.figure("dynamic"),
    },
    decides="how badly the small section suffers from the degree that the large one needs. The best plans "
    "let both share all ranks, where the order of samples changes nothing: there the gain is static.",
    amended="First measured with a section's time by itself; the predictions are those of then, and were "
    "written before sections could be simulated end to end on 64 ranks, which all figures are from now. An "
    "ablation of the wavefront alone, which changed nothing, was left out.",
    cannot_say="The production jobs of the publication; models have an eighth of their layers.",
)
