"""A61, Irminsul: pieces of agents' prompts are found by their content, wherever they stand.

Sessions of agents rewrite earlier parts of their prompts. A content cache finds every piece it has seen; each
hit is put at its place, which reads and writes the part of a token's cache that knows its position: the 64
rotated dimensions of 576 in latent attention, all of the keys elsewhere. The comparator is a prefix cache
with the same memory. What is recovered is also counted on the pieces themselves, without any cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.serving import ServedRun, ServingSession, serving_of
from chakrakit.serving.requests import RequestStream, requests_from

ROTATED = {"deepseek-v3-16b": 64 / 576, "llama-3.1-8b": 0.5}
"""Share of a token's cache that knows its position: k_r of the latent, or the keys of keys and values."""


@cache
def engine(model: str, block: int, content_gib: float) -> ServingSession:
    """One engine; step times are worked out once."""
    options = (
        f"vllm{{block_size={block},content_gib={content_gib},content_rotated={ROTATED[model]}}}"
    )
    return serving_of(
        model, "dgx-h200", "poisson{rate=1,n=1,prompt=9000}", options, compute="roofline"
    )


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds to the first token, what was recovered above the prefix, and energy of a prompt token."""
    text = (
        f"agents{{rate=0.5,n={case['requests']},turns=12,think=1,prefix=3000,prompt=lognormal:330:0.7,"
        f"output=1,edits={case['edits']},front={case['front']},seed={seed}}}"
    )
    stream = requests_from(text)
    session = replace(engine(case["model"], setting["block"], setting["gib"]), stream=stream)
    served = session.served()
    prefix = by_prefix(case["model"], text)
    asked = float(stream.prompt.sum())
    found, before = (int(s.outcome.requests["cached"].sum()) / asked for s in (served, prefix))
    first = served.outcome.requests["first"] - served.outcome.requests["arrival"]
    figures = {"seconds": float(first.mean()) * 1e-12, "kept_up": 1 / float(first.mean() * 1e-12)}
    if setting["gib"]:
        figures |= {"above_prefix": found - before, "saved_energy": 1 - work(served) / work(prefix)}
        figures["off_by"] = abs(found - counted(stream, served)) if setting["gib"] > 1 else 0.0
    return figures


@cache
def by_prefix(model: str, text: str) -> ServedRun:
    """The same requests with a prefix cache."""
    return replace(engine(model, 16, 0.0), stream=requests_from(text)).served()


def work(served: ServedRun) -> float:
    """Joules of all work beyond what devices draw anyway."""
    by_class = served.result().energy_by_class
    return sum(joules for name, joules in by_class.items() if name != "idle")


def counted(stream: RequestStream, served: ServedRun) -> float:
    """The share of prompt tokens in pieces that an earlier prompt had, by the order in which they started."""
    contents, seen, known = stream.contents, set[int](), 0
    assert contents is not None
    for r in np.argsort(served.outcome.requests["scheduled"], kind="stable").tolist():
        mine = slice(int(contents.offsets[r]), int(contents.offsets[r + 1]))
        pieces = list(zip(contents.ids[mine].tolist(), contents.tokens[mine].tolist(), strict=True))
        known += sum(tokens for piece, tokens in pieces if piece in seen)
        seen.update(piece for piece, _ in pieces)
    return known / float(stream.prompt.sum())


def cases(quick: bool) -> Sequence[Case]:
    """Two kinds of attention, by how often a turn rewrites something, in the middle or at the front."""
    models, count = (list(ROTATED)[:1], 24) if quick else (list(ROTATED), 60)
    rows = [(0.0, 0.0), (0.3, 0.0), (1.0, 0.0), (1.0, 1.0)]
    return [
        {"model": model, "edits": edits, "front": front, "requests": count}
        for model in models
        for edits, front in (rows[::3] + rows[1:2] if quick else rows)
    ]


def one(block: int, gib: float) -> Setting:
    """Tokens of a block, and memory for content."""
    return {"block": block, "gib": gib}


STUDY = Study(
    id="A61",
    system="Irminsul",
    family="serving",
    strength="strong",
    claims=[
        Claim("up to 83 % of prompt tokens above the prefix", 0.83, 0.83, figure="above_prefix"),
        Claim("63 % less energy of prompts for a hit", 0.63, 0.63, figure="saved_energy"),
    ],
    rests_on={
        "content found wherever it stands, at a cost": "serving/engine.py",
        "sessions that rewrite their prompts": "serving/requests/agents.py",
        "energy of the work that is left": "serving/results/figures.py",
    },
    cases=cases,
    sides={
        "Irminsul": [one(16, 4.0), one(16, 16.0)],
        "prefix cache": [one(block, 0.0) for block in (8, 16, 32)],
    },
    idea="Irminsul",
    measure=measure,
    better=("seconds", "min"),
    health="kept_up",
    gone=lambda case: bool(case["edits"] == 0.0),
    ablate={"finding content behind the prefix": {"gib": 0.0}},
    predictions={
        "what is recovered equals a count on the pieces": lambda t: 1e-9 - most(t.figure("off_by")),
        "it rises with the rate of edits": lambda t: (
            least(t.figure("above_prefix", edits=1.0))
            - most(t.figure("above_prefix", edits=0.3, front=0.0))
        ),
        "an edit at the front loses the most": lambda t: (
            least(t.figure("above_prefix", edits=1.0, front=1.0))
            - most(t.figure("above_prefix", edits=1.0, front=0.0))
        ),
        "the first token comes sooner where prompts are rewritten": lambda t: (
            least(t.gains(edits=1.0)) - 1.2
        ),
        "there is no gain without edits": lambda t: 0.02 - most(abs(t.gains(edits=0.0) - 1)),
    },
    decides="where edits fall: a rewritten header loses the whole prefix, a rewritten piece only what stands "
    "behind it.",
    cannot_say="Whether answers stay the same when content is moved, and how content is cut into pieces: the "
    "pieces here are those that sessions are made of.",
)
