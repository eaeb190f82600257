"""A34, MegaScale-Omni: encoders share the language model's ranks but not its plan, as mixtures drift.

Samples bring images or none, and the share drifts from step to step. Coupled, a replica encodes its own
samples under the language model's plan. Disaggregated, encoders have ranks of their own, as many for all
steps. Decoupled, all ranks encode all images, the largest first, and tokens go to where they are needed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.training.sections import balanced, in_turn, section_seconds, spread

LLM, ENCODER, RANKS, STEPS, SAMPLES = "llama3.1-8b", "llama3.2-1b", 64, 8, 256
"""The encoder is a transformer of a billion parameters, as vision encoders are, with a decoder's layers."""
TOKEN_BYTES, NIC = 2 * 4096, 50e9
"""An encoded token in bf16 at the language model's width, and a 400 Gb/s adapter."""


def step_seconds(setting: Setting, images: np.ndarray, texts: np.ndarray) -> tuple[float, float]:
    """A step, and the seconds in which a mean rank works."""
    tp = setting["tp"]
    llm = section_seconds(LLM, tp, True) * texts
    alone, coupled = (section_seconds(ENCODER, n, True) * images for n in (1, tp))
    useful = float((llm * tp).sum() + alone.sum()) / RANKS
    if setting["layout"] == "coupled":
        return in_turn((llm + coupled).tolist(), RANKS // tp), useful
    if setting["layout"] == "apart":
        own = int(setting["own"] * RANKS)
        return max(in_turn(alone.tolist(), own), in_turn(llm.tolist(), (RANKS - own) // tp)), useful
    moved = float(images.sum()) * 2048 * TOKEN_BYTES / RANKS / NIC
    deal = balanced if setting["reorders"] else lambda work, n: in_turn(work.tolist(), n)
    return deal(alone, RANKS) + moved + deal(llm, RANKS // tp), useful


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Samples per second over all steps of a drift, and the share of time in which ranks work."""
    rng = np.random.default_rng([seed, int(100 * case["images"])])
    total = busy = 0.0
    for step in range(STEPS):
        drift = np.sin(2 * np.pi * step / STEPS) * case["drift"]
        share = float(np.clip(case["images"] * (1 + drift), 0, 1))
        has = rng.random(SAMPLES) < share
        images = np.where(has, spread(SAMPLES, case["cv"], rng) * case["size"], 0.0)
        texts = spread(SAMPLES, 0.3 if case["images"] else 0.0, rng)
        took, useful = step_seconds(setting, images, texts)
        total, busy = total + took, busy + useful
    return {"rate": STEPS * SAMPLES / total, "busy": busy / total}


def cases(quick: bool) -> Sequence[Case]:
    """Text alone, a steady mixture, and mixtures that drift, with more and larger images."""
    rows = [(0.0, 0.0, 0.0, 0.0), (0.3, 0.0, 0.5, 1.0), (0.5, 0.9, 1.0, 4.0)]
    if not quick:
        rows += [(0.5, 0.9, 1.0, 16.0), (0.5, 0.0, 1.0, 4.0)]
    names = ("images", "drift", "cv", "size")
    return [dict(zip(names, row, strict=True)) for row in rows]


def way(layout: str, tp: int = 2, own: float = 0.0, reorders: int = 0) -> Setting:
    """A layout with the language model's degree, and where encoders have their own ranks their share."""
    return {"layout": layout, "tp": tp, "own": own, "reorders": reorders}


DEGREES = (1, 2, 4)
STUDY = Study(
    id="A34",
    system="MegaScale-Omni",
    family="training",
    strength="strong",
    claims=[Claim("1.27 to 7.57 times the throughput", 1.27, 7.57)],
    rests_on={
        "time of a section under a plan": "workloads/generate/programs.py",
        "work dealt out to ranks, in order or by size": "published/training/sections.py",
        "tokens sent from encoders": "published/training/a34_megascale_omni.py",
    },
    cases=cases,
    sides={
        "decoupled": [way("decoupled", tp, 0.0, 1) for tp in DEGREES],
        "coupled": [way("coupled", tp) for tp in DEGREES],
        "apart": [way("apart", tp, own) for tp in (1, 2) for own in (0.125, 0.25, 0.5)],
        "coupled, degree 4": [way("coupled", 4)],
    },
    idea="decoupled",
    untuned=["coupled, degree 4"],
    measure=measure,
    better=("rate", "max"),
    health="busy",
    gone=lambda case: bool(case["images"] == 0.0),
    ablate={"reordering": {"reorders": 0}, "decoupling": {"layout": "coupled"}},
    predictions={
        "nothing is gained for text alone": lambda t: 0.02 - most(abs(t.gains(images=0.0) - 1)),
        "the gain grows as mixtures drift": lambda t: (
            least(t.gains(drift=0.9)) - most(t.gains(images=0.3))
        ),
        "against a weak plan it is several times as large": lambda t: (
            least(t.gains("coupled, degree 4", drift=0.9)) - 1.5
        ),
    },
    decides="what it is held against: the best static plan is much closer than a weak one.",
    cannot_say="Overlap of encoding with the language model's pipeline, and thousands of devices.",
)
