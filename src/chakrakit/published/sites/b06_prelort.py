"""B06, PreLort: nested adapters for clients of unequal size, by the bytes that a round sends.

Every client trains the prefix of one adapter that fits it. Against one rank for all, small clients send less
and large ones learn more; what is counted here is the traffic of a round alone.
"""

from __future__ import annotations

import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.workloads.description import Decoder
from chakrakit.workloads.models import model_named

CLIENTS = 100
RANKS = (4, 8, 16, 32)
"""Ranks that clients can train, a quarter of them each."""


def adapter_bytes(model: str, rank: int) -> float:
    """Bytes of the adapters of queries and values of all layers, in 16 bits."""
    m = model_named(model)
    assert isinstance(m, Decoder)
    outer = m.hidden + (m.kv_heads or m.heads) * (m.head_dim or m.hidden // m.heads)
    return 2.0 * m.layers * rank * (2 * m.hidden + outer)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Bytes of a round up and down, and seconds of the slowest client."""
    rng = np.random.default_rng([seed, 11])
    able = rng.choice(RANKS, CLIENTS) if case["unequal"] else np.full(CLIENTS, max(RANKS))
    ranks = able if setting["nested"] else np.full(CLIENTS, setting["rank"])
    takes_part = ranks <= able
    sent = 2 * sum(adapter_bytes(case["model"], int(r)) for r in ranks[takes_part])
    slowest = (
        2 * adapter_bytes(case["model"], int(ranks[takes_part].max())) / (case["mbit"] * 1e6 / 8)
    )
    learned = float(ranks[takes_part].sum())  # columns of adapters that are trained
    return {
        "bytes_per_rank": sent / learned,
        "seconds": slowest,
        "columns": learned,
        "cost": 1 / learned,
    }


STUDY = Study(
    id="B06",
    system="PreLort",
    family="sites",
    strength="side cost",
    claims=[
        Claim(
            "better accuracy for clients of unequal size",
            1.0,
            2.0,
            kind="not simulable",
            figure="accuracy",
        )
    ],
    rests_on={"bytes of adapters": "workloads/models/published.py"},
    cases=lambda quick: [
        {"model": m, "mbit": b, "unequal": u}
        for m in ("llama3.2-1b", "llama3.1-8b")
        for b in (20,)
        for u in (True, False)
    ],
    sides={
        "nested": [{"nested": True, "rank": 0}],
        "one rank for all": [{"nested": False, "rank": r} for r in RANKS],
    },
    idea="nested",
    measure=measure,
    better=("cost", "min"),
    health="columns",
    gone=lambda case: not case["unequal"],
    ablate={"nesting": {"nested": False, "rank": 8}},
    predictions={
        "more columns are trained than with any one rank": lambda t: (
            least(t.gains(unequal=True)) - 1.02
        ),
        "clients that are all alike gain nothing": lambda t: 1.02 - most(t.gains(unequal=False)),
        "a byte trains as much as before": lambda t: (
            0.02
            - np.abs(
                t.figure("bytes_per_rank").mean(axis=0) / t.figure("bytes_per_rank").mean() - 1
            )
        ),
    },
    cannot_say="Accuracy, which is all that was claimed: columns trained in a round are what is paid for.",
)
