"""A39, FCP: attention over packed documents in blocks that are packed by their work, against rings.

A ring cuts every document over all ranks and passes all keys round, whether a rank's queries meet them or
not. Blocks of queries go to the rank that is done first, and only the keys that they meet are sent, from
whoever has them. Comparators may exchange heads in groups of 2, 4 or 8 ranks and ring beyond.
"""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.training.long_context import block_seconds, documents, mfu, ring_seconds


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """The share of the peak that one layer's attention reaches."""
    ranks = case["ranks"]
    lengths = documents(ranks, case["mean"], case["sigma"], seed)
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
    return {"mfu": mfu(lengths, ranks, seconds), "balance": balance, "sent": sent}


def cases(quick: bool) -> Sequence[Case]:
    """One document, and mixes of many; on one node and on several."""
    mixes = ((0, 0.0), (16384, 1.0), (4096, 1.0), (4096, 2.0))
    if quick:
        return [
            {"ranks": 8, "mean": mean, "sigma": sigma} for mean, sigma in mixes[::2] + mixes[3:]
        ]
    return [
        {"ranks": n, "mean": mean, "sigma": sigma} for n in (8, 16, 32) for mean, sigma in mixes
    ]


STUDY = Study(
    id="A39",
    system="FCP",
    family="training",
    strength="strong",
    claims=[Claim("1.13 to 2.21 times the attention MFU", 1.13, 2.21)],
    rests_on={
        "blocks packed by work, and the keys they meet": "workloads/blocks/exchange.py",
        "messages that share links": "simulator/engine/messages.py",
        "exchanges of heads": "simulator/collectives/algorithms.py",
    },
    cases=cases,
    sides={
        "FCP": [{"how": "flops", "heads": 1, "block": b} for b in (512, 1024, 2048)],
        "ring and heads, tuned": [{"how": "ring", "heads": h, "block": 0} for h in (1, 2, 4, 8)],
        "ring": [{"how": "ring", "heads": 1, "block": 0}],
    },
    idea="FCP",
    untuned=["ring"],
    measure=measure,
    better=("mfu", "max"),
    health="mfu",
    gone=lambda case: bool(case["mean"] == 0),
    ablate={"packing by work": {"how": "per-document"}},
    predictions={
        "one document gains nothing": lambda t: 1.05 - most(t.gains(mean=0)),
        "the gain over a ring grows as documents get shorter": lambda t: (
            least(t.gains("ring", mean=4096, sigma=1.0)) - most(t.gains("ring", mean=16384))
        ),
        "over the best of rings and heads it is smaller than over the ring": lambda t: least(
            t.gains("ring", mean=4096) - t.gains(mean=4096)
        ),
        "blocks are balanced within 10 %": lambda t: 1.1 - most(t.figure("balance")),
    },
    decides="exchanges of heads: within a node they balance the work as well and send little.",
    amended="Packing was mended, which had divided a rank with itself where several were as busy.",
    cannot_say="How kernels of small blocks lose speed, and what other layers gain from even tokens.",
)
