"""B01, ODB: batches that each rank forms as its samples arrive, against fixed batches with padding.

Lengths of samples are known only once they are read. Online, every rank fills a budget of padded tokens from
its own buffer, and all ranks run as many steps. A fixed batch pads to its longest sample, and is as large as
the longest sample allows. Budgets over the whole data set, sorted beforehand, are the oracle.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.training.buckets import dealt, reduce_seconds, shape_seconds
from chakrakit.workloads.description import Lengths, Samples, Step
from chakrakit.workloads.models import model_named

MODEL, LAYERS, RANKS, STEPS, SEQ = "llama3.2-1b", 4, 8, 12, 4096
BUDGET = 4 * SEQ
"""Padded tokens that a device holds: four samples of the longest length, for all sides."""


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Tokens of samples per second, padding, and the rate over that of budgets on sorted data."""
    own = figures(case, setting, seed)
    oracle = figures(case, {**online(4096), "batcher": "tokens"}, seed)
    return {**own, "of_offline": own["tokens_per_s"] / oracle["tokens_per_s"]}


def figures(case: Case, setting: Setting, seed: int) -> Figures:
    """What one batcher makes of a case's samples."""
    spread = float(np.sqrt(np.log(1 + case["cv"] ** 2)))
    lengths = Lengths(
        distribution="lognormal" if case["cv"] else "fixed", mean=case["mean"], sigma=spread
    )
    batch = setting["batch"] if setting["batcher"] == "fixed" else 1
    chosen = Samples(batcher=setting["batcher"], budget=setting["budget"], window=setting["window"])
    step = Step(seq=SEQ, micro_batch=batch, lengths=lengths, seed=seed)
    one = dealt(model_named(MODEL), RANKS, STEPS, chosen, step)
    times = np.array(
        [[shape_seconds(MODEL, LAYERS, b.rows, b.length) for (b,) in r] for r in one.of]
    )
    total = float(times.max(axis=0).sum() + STEPS * reduce_seconds(MODEL, LAYERS, RANKS))
    batches = list(one.batches())
    own, padded = sum(b.own for b in batches), sum(b.rows * b.length for b in batches)
    return {
        "tokens_per_s": own / total,
        "padding": 1 - own / padded,
        "busy": float(times.mean(axis=0).sum() / total),
    }


def cases(quick: bool) -> Sequence[Case]:
    """Samples of one length, and of ever more unequal ones."""
    found = [{"mean": SEQ, "cv": 0.0}, *({"mean": 512, "cv": cv} for cv in (0.0, 0.5, 1.0))]
    return found if quick else [*found, {"mean": 512, "cv": 2.0}, {"mean": 1024, "cv": 1.0}]


def online(window: int) -> Setting:
    """Batches from a buffer of so many samples."""
    return {"batcher": "online", "budget": BUDGET, "window": window, "batch": 1}


def fixed(batch: int) -> Setting:
    """So many samples as they come: four of the longest fit."""
    return {"batcher": "fixed", "budget": BUDGET, "window": 256, "batch": batch}


STUDY = Study(
    id="B01",
    system="ODB",
    family="training",
    strength="strong",
    claims=[
        Claim(
            "1.58 to 2.51 times the throughput of fixed batches", 1.58, 2.51, where={"mean": 512}
        ),
        Claim("within 15 % of offline budgets", 0.85, 1.05, figure="of_offline"),
    ],
    rests_on={
        "batches online and from sorted windows": "workloads/samples/batchers.py",
        "as many steps for all ranks": "workloads/samples/dealing.py",
        "time of padded batches": "published/training/buckets.py",
    },
    cases=cases,
    sides={
        "ODB": [online(w) for w in (64, 256, 1024)],
        "fixed batch": [fixed(b) for b in (1, 2, 4)],
    },
    idea="ODB",
    measure=measure,
    better=("tokens_per_s", "max"),
    health="busy",
    gone=lambda case: bool(case["cv"] == 0.0 and case["mean"] == SEQ),
    ablate={"a buffer": {"window": 1}},
    predictions={
        "the gain grows with the spread of lengths": lambda t: (
            least(t.gains(cv=1.0, mean=512)) - most(t.gains(cv=0.0, mean=512))
        ),
        "padding stays below a tenth": lambda t: 0.1 - most(t.figure("padding")),
        "offline budgets are at most 15 % better": lambda t: least(t.figure("of_offline")) - 0.85,
    },
    decides="how much smaller than the longest a usual sample is: a fixed batch must fit the longest.",
    amended="After the first run the side without tuning became a figure instead of a comparator.",
    cannot_say="Time of reading and preprocessing, and what batches of other sizes do to convergence.",
)
