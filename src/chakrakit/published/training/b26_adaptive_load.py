"""B26, AdaptiveLoad: batches of a video model bounded by B × S^p ≤ M, against batches of equal tokens.

A data-parallel step of Wan 2.1 waits for the replica with the most work. Replicas get buckets of images and
videos of several lengths. Equal tokens leave a long video with much more attention than many images; a bound
with an exponent between tokens and their square evens that out, and leaves images as many as memory allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, certain, least, most
from chakrakit.published.training.buckets import dealt, step_figures
from chakrakit.workloads.description import Samples, Step
from chakrakit.workloads.models import model_named

MODEL, LAYERS, STEPS = "wan2.1-1.3b", 2, 12
VIDEO = model_named(MODEL).replace(frames=21, layers=LAYERS, height=60, width=104)
"""Clips of 81 frames in 480p: 21 latent frames of 60 × 104."""
FRAME = VIDEO.tokens // 21
MEMORY = 8 * VIDEO.tokens
"""Tokens that a device holds at most, with activations recomputed: both sides have the same."""


def samples(case: Case, setting: Setting) -> tuple[Samples, Step]:
    """The batcher of a side."""
    sizes = [int(f) for f in str(case["frames"]).split("+")]
    most_tokens = setting["longest"] * max(sizes) * FRAME
    bound = most_tokens if setting["p"] == 1 else MEMORY
    batcher: Literal["fixed", "power"] = "fixed" if setting["p"] == 0 else "power"
    chosen = Samples(
        batcher=batcher,
        sizes=sizes,
        power=setting["p"],
        longest_batch=setting["longest"],
        budget=bound,
    )
    return chosen, Step(micro_batch=setting["longest"] if batcher == "fixed" else 1)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Tokens per second, and how much longer than the mean the slowest replica computes."""
    chosen, step = samples(case, setting)
    one = dealt(VIDEO, case["ranks"], STEPS, chosen, step.replace(seed=seed))
    seconds, imbalance, busy = step_figures(MODEL, LAYERS, one)
    tokens = sum(batch.own for batch in one.batches()) * FRAME
    return {"tokens_per_s": tokens / seconds, "imbalance": imbalance, "busy": busy}


def cases(quick: bool) -> Sequence[Case]:
    """Buckets of several lengths, of two, and of one."""
    mixes = ("1+5+11+21", "1+21", "21")
    return [
        {"frames": mix, "ranks": ranks} for ranks in ((8,) if quick else (8, 32)) for mix in mixes
    ]


def interior(judged: object, frames: str) -> bool:
    """Whether the best exponent is neither the smallest nor the largest."""
    where = judged.where(frames=frames)[0]  # type: ignore[attr-defined]
    curve = judged.curve("p", "tokens_per_s", where)  # type: ignore[attr-defined]
    best = max(curve, key=curve.__getitem__)
    return bool(min(curve) < best < max(curve))


POWERS = (1.0, 1.2, 1.4, 1.6, 1.8, 2.0)
STUDY = Study(
    id="B26",
    system="AdaptiveLoad",
    family="training",
    strength="strong",
    claims=[
        Claim(
            "throughput 27.2 % higher for Wan 2.1", 1.272, 1.272, figure="gain over equal tokens"
        ),
        Claim(
            "imbalance falls to 18.9 %",
            0.10,
            0.25,
            figure="imbalance",
            where={"frames": "1+5+11+21"},
        ),
    ],
    rests_on={
        "work of attention that grows with the square of lengths": "workloads/layers/attention.py",
        "batches by a bound on B × S^p": "workloads/samples/batchers.py",
        "a step that waits for its slowest replica": "published/training/buckets.py",
    },
    cases=cases,
    sides={
        "B × S^p": [{"p": p, "longest": 2} for p in POWERS],
        "tokens, tuned": [{"p": 1.0, "longest": n} for n in (1, 2, 3, 4, 6, 8)],
        "fixed batch": [{"p": 0.0, "longest": n} for n in (1, 2, 3, 4, 6, 8)],
        "equal tokens": [{"p": 1.0, "longest": 2}],
    },
    idea="B × S^p",
    untuned=["equal tokens"],
    measure=measure,
    better=("tokens_per_s", "max"),
    health="busy",
    gone=lambda case: bool(case["frames"] == "21"),
    ablate={"the exponent": {"p": 1.0}},
    predictions={
        "imbalance halves at the best p": lambda t: least(
            0.6
            - t.figure("imbalance", frames="1+5+11+21")
            / t.figure("imbalance", "equal tokens", frames="1+5+11+21")
        ),
        "p has an interior optimum": lambda t: certain(interior(t, "1+5+11+21"), len(t.seeds)),
        "the gain over equal tokens is 15 to 45 %": lambda t: np.minimum(
            least(t.gains("equal tokens", frames="1+5+11+21")) - 1.15,
            1.45 - most(t.gains("equal tokens", frames="1+5+11+21")),
        ),
        "gone with one length": lambda t: 0.02 - most(abs(t.gains(frames="21") - 1)),
    },
    decides="how lengths are mixed: imbalance depends on which buckets meet in a step, and with two lengths "
    "alone a smaller budget of tokens does nearly as well.",
    cannot_say="The fused kernel of layer norm and modulation, which the publication counts in: it is "
    "another gain. Memory is counted in tokens, and no communication hides behind the backward pass.",
)
