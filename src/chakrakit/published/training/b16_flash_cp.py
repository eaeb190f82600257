"""B16, FlashCP: long documents in blocks, short ones whole, and only the keys that are needed are sent.

A context-parallel layer that keeps documents whole sends nothing and is unbalanced; one that cuts every
document over all ranks is balanced and sends all keys. A search for the length that divides the two is held
against rings, exchanges of heads, and both extremes with exact sending.
"""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.training.long_context import block_seconds, documents, mfu, ring_seconds


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of one layer's attention, keys sent per token, and balance."""
    ranks = case["ranks"]
    lengths = documents(ranks, case["mean"], 1.0, seed)
    if setting["how"] == "ring":
        seconds, balance, sent = (
            ring_seconds(lengths, ranks, setting["heads"], seed),
            1.0,
            ranks - 1.0,
        )
    else:
        seconds, balance, sent = block_seconds(
            lengths, ranks, setting["how"], setting["block"], seed
        )
    figures = {"seconds": seconds, "mfu": mfu(lengths, ranks, seconds)}
    return {**figures, "balance": balance, "sent": sent}


def cases(quick: bool) -> Sequence[Case]:
    """From one document to many short ones."""
    if quick:
        return [{"ranks": 8, "mean": m} for m in (0, 16384, 1024)]
    return [{"ranks": n, "mean": m} for n in (8, 16, 32) for m in (0, 16384, 4096, 1024)]


BLOCKS = (512, 1024, 2048)
STUDY = Study(
    id="B16",
    system="FlashCP",
    family="training",
    strength="strong",
    claims=[Claim("up to 1.63 times as fast as other context parallelism", 1.63, 1.63)],
    rests_on={
        "the keys that are needed, and no others": "workloads/blocks/exchange.py",
        "documents whole or in blocks, by a search": "workloads/blocks/assignment.py",
        "messages that share links": "simulator/engine/messages.py",
    },
    cases=cases,
    sides={
        "FlashCP": [{"how": "mixed", "heads": 1, "block": b} for b in BLOCKS],
        "ring and heads, tuned": [{"how": "ring", "heads": h, "block": 0} for h in (1, 2, 4, 8)],
        "every document cut": [{"how": "per-document", "heads": 1, "block": b} for b in BLOCKS],
        "ring": [{"how": "ring", "heads": 1, "block": 0}],
    },
    idea="FlashCP",
    untuned=["ring"],
    measure=measure,
    better=("seconds", "min"),
    health="mfu",
    gone=lambda case: bool(case["mean"] == 0),
    ablate={"whole documents": {"how": "per-document"}},
    predictions={
        "one document gains nothing": lambda t: 1.05 - most(t.gains(mean=0)),
        "short documents are hardly sent": lambda t: 0.5 - most(t.figure("sent", mean=1024)),
        "the work stays balanced within 15 %": lambda t: 1.15 - most(t.figure("balance")),
        "the gain over a ring grows as documents get shorter": lambda t: (
            least(t.gains("ring", mean=1024)) - most(t.gains("ring", mean=16384))
        ),
    },
    decides="exchanges of heads within a node, which send little and are balanced whatever the documents.",
    amended="The search moves blocks to where fewer keys are sent, counts what ranks send, and goes by "
    "NVLink within a node; before, it went by work and an adapter's rate. Quick runs have three cases "
    "instead of four.",
    cannot_say="What the search costs, and what kernels of small blocks lose.",
)
