"""B28, RRFP: the schedule of a pipeline is a hint, and a stage runs any task that is ready.

All sides see the same durations, memory limit and network, receive eagerly, and may split the backward pass
in two. A fixed order keeps to its plan: 1F1B with more or fewer forwards ahead, GPipe, ZB-H1, or what a
greedy rule does with undisturbed durations. Readiness takes a plan as a hint, or goes by a rule, and never
waits for a task while another is ready.
"""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.planning.pipelines import RULES, SPLITS, Pipeline, seconds


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of a step, and the share of it in which the busiest stage works."""
    pipeline = Pipeline(*(case[k] for k in ("stages", "batches", "limit", "source", "spread")))
    took = seconds(pipeline, setting["plan"], setting["split"], setting["ready"], seed)
    work = pipeline.work(seed)
    busiest = (work["F"] + work["B"]).sum(axis=1).max() * 1e-9
    return {"seconds": took, "efficiency": float(busiest) / took}


def cases(quick: bool) -> Sequence[Case]:
    """Where durations vary and by how much, and how many micro-batches memory allows."""
    size = {"stages": 4, "batches": 8 if quick else 16}
    full = {**size, "limit": size["stages"]}
    found = [
        {**full, "source": source, "spread": spread}
        for source in (("task",) if quick else ("task", "batch", "encoder"))
        for spread in ((0.0, 0.4, 0.8) if quick else (0.0, 0.2, 0.4, 0.8))
    ]
    if quick:
        return found
    return found + [{**size, "limit": n, "source": "encoder", "spread": 0.4} for n in (2, 8)]


def ways(names: tuple[str, ...], split: str, ready: bool) -> list[Setting]:
    """Plans or rules with one way of splitting the backward pass."""
    return [{"plan": name, "split": split, "ready": ready} for name in names]


def rules(ready: bool) -> list[Setting]:
    """Every rule with both."""
    return [way for split in SPLITS for way in ways(tuple(RULES), split, ready)]


STUDY = Study(
    id="B28",
    system="RRFP",
    family="planning",
    strength="strong",
    claims=[
        Claim("up to 1.77 times as fast for language models", 1.77, 1.77, where={"source": "task"}),
        Claim("up to 2.77 times for multimodal ones", 2.77, 2.77, where={"source": "encoder"}),
    ],
    rests_on={
        "tasks that a policy dispatches when they are ready": "simulator/engine/planner.py",
        "orders of published schedules": "workloads/description/schedules.py",
        "memory that bounds micro-batches in flight": "published/planning/pipelines.py",
    },
    cases=cases,
    sides={
        "readiness": rules(ready=True)
        + ways(("1f1b+0",), "whole", True)
        + ways(("zb-h1",), "halves", True),
        "fixed order": rules(ready=False)
        + ways(("1f1b+0", "1f1b+1", "1f1b+2", "gpipe"), "whole", False)
        + ways(("zb-h1",), "halves", False),
        "1F1B": ways(("1f1b+0",), "whole", False),
    },
    idea="readiness",
    untuned=["1F1B"],
    measure=measure,
    better=("seconds", "min"),
    health="efficiency",
    gone=lambda case: bool(case["spread"] == 0.0),
    ablate={"readiness": {"ready": False}},
    predictions={
        "without variation the two are equal": lambda t: 0.02 - most(abs(t.gains(spread=0.0) - 1)),
        "the gain grows with the spread": lambda t: (
            least(t.gains(spread=0.8, source="task")) - most(t.gains(spread=0.2, source="task"))
        ),
        "it is tens of percent at a spread of 0.4 at most": lambda t: (
            1.4 - most(t.gains(spread=0.4))
        ),
        "with fewer in flight than stages it vanishes": lambda t: 1.02 - most(t.gains(limit=2)),
        "against 1F1B it looks larger than against the best fixed order": lambda t: least(
            t.gains("1F1B", spread=lambda s: s > 0) - t.gains(spread=lambda s: s > 0)
        ),
    },
    decides="the order that a fixed schedule may have: most of the gain over 1F1B comes from splitting the "
    "backward pass, which a fixed order can do as well.",
    cannot_say="What it costs tensor-parallel ranks to agree on the next task, and a runtime's overhead.",
)
