"""A42, the recipe of SuperMUC-NG Phase 2: tensors split within a node, layers over nodes, optimizers sharded.

The share of the peak that a tile reaches is set once, so that 175 billion parameters train at 10 % of the
peak on 16 nodes, as published. Weak and strong scaling to 128 nodes must then come out by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.planning.supermuc import SEQUENCE, calibrated, step_seconds

STATED = {"sequences": 8}
"""Of a node in the runs that are compared with the publication."""


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Tokens a second of a node in the large run, and that over the small run's."""
    few, many, layers, each = (case[k] for k in ("few", "nodes", "layers", "sequences"))
    plan = (setting["tp"], setting["pp"] * few // 16, setting["data"])
    efficiency = calibrated(few, layers)
    batches = {"weak": (each * few, each * many), "strong": (each * many, each * many)}[
        case["scaling"]
    ]
    small, large = (
        batch * SEQUENCE / step_seconds(nodes, batch, plan, layers, efficiency, seed) / nodes
        for nodes, batch in zip((few, many), batches, strict=True)
    )
    figure = {f"{case['scaling']}_scaling": large / small} if many > few else {}
    return {"tokens_per_s": large, "kept": large / small, **figure}


def cases(quick: bool) -> Sequence[Case]:
    """Weak and strong scaling with so many sequences a node, a large run that is no larger, and half of them.

    The last shows what decides strong scaling, and neither claim nor prediction is about it.
    """
    few, many, layers, sequences = (4, 8, 8, 2) if quick else (16, 128, 96, 8)
    size = {"few": few, "layers": layers, "sequences": sequences}
    runs = (("weak", many), ("strong", many), ("weak", few))
    usual = [{"scaling": scaling, "nodes": nodes, **size} for scaling, nodes in runs]
    return usual if quick else [*usual, {**usual[1], "sequences": sequences // 2}]


def plans(tp: int, pps: tuple[int, ...]) -> list[Setting]:
    """Plans by the depth of the pipeline."""
    return [{"tp": tp, "pp": pp, "data": "zero1"} for pp in pps]


STUDY = Study(
    id="A42",
    system="SuperMUC-NG Phase 2 recipe",
    family="planning",
    strength="strong",
    claims=[
        Claim("93 % weak scaling on 128 nodes", 0.88, 0.98, figure="weak_scaling"),
        Claim(
            "82 % strong scaling on 128 nodes", 0.77, 0.87, figure="strong_scaling", where=STATED
        ),
        Claim("10 % of the peak of a tile", 0.1, 0.1, "calibrated"),
    ],
    rests_on={
        "collectives on a tree": "simulator/collectives/choice.py",
        "bubbles of a pipeline": "workloads/description/schedules.py",
        "rates of tiles": "machines/device/work.py",
    },
    cases=cases,
    sides={"the recipe": plans(8, (16, 8)), "tensors over two nodes": plans(16, (8, 4))},
    idea="the recipe",
    measure=measure,
    better=("tokens_per_s", "max"),
    health="kept",
    gone=lambda case: bool(case["nodes"] == case["few"]),
    ablate={"tensors within a node": {"tp": 16, "pp": 8}},
    predictions={
        "weak scaling within 5 points of 93 %": lambda t: (
            0.05 - most(abs(t.figure("weak_scaling", scaling="weak", nodes=128) - 0.93))
        ),
        "strong scaling within 5 points of 82 %": lambda t: (
            0.05
            - most(abs(t.figure("strong_scaling", scaling="strong", nodes=128, **STATED) - 0.82))
        ),
        "tensors stay within a node in the best plan": lambda t: least(t.gains(**STATED)) - 1.02,
    },
    decides="the batch of the strong run, which the abstract does not state. Bubbles of the pipeline take "
    "7 of 71 slots with 1,024 sequences on 128 nodes and 7 of 39 with 512, the last case: 82 % lies between.",
    cannot_say="Why a tile reaches a tenth of its peak, which is taken from the publication, and failures.",
)
