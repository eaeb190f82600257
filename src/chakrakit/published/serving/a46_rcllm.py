"""A46, RcLLM: caches of a recommender's items are found wherever they stand in a prompt, on any engine.

A prompt is an instruction, a user's history and items in an order of their own. A prefix cache finds the
instruction and a history that is still there; the idea finds items as well, spread over engines by their
hash and fetched over the links, or kept where users who like them are sent. A part of what is found is
computed all the same. The comparator has the same memory for its prefixes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from chakrakit.published import Case, Claim, Figures, Judged, Setting, Study, least, most
from chakrakit.published.serving.recommendations import NearItsKind, prompts
from chakrakit.serving import ServingSession, serving_of

ENGINES, CONTENT_GIB, RECOMPUTED = 4, 4.0, 0.15
"""Engines; memory of each for items, in all enough for the catalogue; the share that is computed again."""


@cache
def engines(place: str, link_gbps: float, recomputed: float) -> ServingSession:
    """Engines with one kind of cache; step times are worked out once."""
    content = (
        f"content_gib={CONTENT_GIB},content_rotated=0.5,content_recomputed={recomputed},"
        f"content_link_gbps={link_gbps},content_shared={str(place == 'hash').lower()}"
    )
    prefixes = place in ("longest prefix", "fewest requests", "near, prefixes")
    return serving_of(
        "llama-3.1-8b",
        "dgx-h100",
        "poisson{rate=1,n=1,prompt=1952,output=1}",
        "vllm" if prefixes else f"vllm{{{content}}}",
        replicas=ENGINES,
        compute="roofline",
        router="prefix" if place == "longest prefix" else "least",
        policy=NearItsKind() if place.startswith("near") else None,
    )


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Mean seconds to the first token, the share of tokens found, and how well engines kept up."""
    stream = prompts(case["rate"], case["again"], case["requests"], seed)
    session = engines(setting["place"], case["link"], setting["recomputed"])
    done = replace(session, stream=stream).served().outcome.requests
    seconds = (done["first"] - done["arrival"]) * 1e-12
    return {
        "ttft": float(seconds.mean()),
        "found": float(done["cached"].sum() / stream.prompt.sum()),
        "kept_up": float(done["arrival"].max() / done["finish"].max()),
    }


def cases(quick: bool) -> Sequence[Case]:
    """Users who see new items or a list of their own; load; links between engines."""
    rows = [(0.0, 20, 25.0), (0.0, 200, 25.0), (1.0, 20, 25.0)]
    if not quick:
        rows += [
            (0.5, 200, 25.0),
            (0.0, 240, 25.0),
            (0.0, 20, 0.5),
            (0.0, 200, 0.5),
            (1.0, 20, 0.5),
        ]
    count = 60 if quick else 500
    return [{"again": a, "rate": r, "link": k, "requests": count} for a, r, k in rows]


def one(place: str, recomputed: float = RECOMPUTED) -> Setting:
    """Where caches are and requests go, and what is computed again of content that was found."""
    return {"place": place, "recomputed": recomputed}


def by_place(judged: Judged, case: Case, side: str = "") -> dict[str, float]:
    """Seconds to the first token by where caches are, as tuning saw them."""
    return judged.curve("place", "ttft", case, side)


STUDY = Study(
    id="A46",
    system="RcLLM",
    family="serving",
    strength="strong",
    claims=[
        Claim("first token at least 1.31 times as fast", 1.31, 1.31),
        Claim("first token up to 9.51 times as fast", 9.51, 9.51),
        Claim("recommendations stay as good", 1.0, 1.0, kind="not simulable"),
    ],
    rests_on={
        "content that is found wherever it stands": "serving/kvcache.py",
        "content on other engines, and its way over links": "serving/cluster.py",
        "queues of engines": "serving/session.py",
    },
    cases=cases,
    sides={
        "RcLLM": [one("hash"), one("near")],
        "prefix cache": [one(p) for p in ("longest prefix", "fewest requests", "near, prefixes")],
    },
    idea="RcLLM",
    measure=measure,
    better=("ttft", "min"),
    health="kept_up",
    gone=lambda case: bool(case["again"] == 1.0),
    ablate={"reuse beyond the prefix": {"recomputed": 1.0}},
    predictions={
        "a gain of at least 1.31 where items are new": lambda t: least(t.gains(again=0.0)) - 1.31,
        "the gain grows with load": lambda t: (
            least(t.gains(again=0.0, rate=200, link=25.0))
            - most(t.gains(again=0.0, rate=20, link=25.0))
        ),
        "no gain where users see the same items again": lambda t: 1.02 - most(t.gains(again=1.0)),
        "over a slow link items that are near are better than a hash": lambda t: np.array(
            [by_place(t, c)["hash"] - by_place(t, c)["near"] for c in t.where(link=0.5)] or [np.nan]
        ).min(keepdims=True),
        "over a slow link a hash is worse than a prefix cache": lambda t: np.array(
            [
                by_place(t, c)["hash"] - min(by_place(t, c, "prefix cache").values())
                for c in t.where(link=0.5, again=0.0)
            ]
            or [np.nan]
        ).min(keepdims=True),
    },
    decides="the load: engines with a prefix cache cannot keep up from 200 requests a second on, where the "
    "idea can. Where users see their own lists again, prefixes find all that there is.",
    amended="After the first quick run users who see the same list again got lists of their own: before, "
    "others had seen the same items. Loads were raised to what engines can just serve. After the "
    "first full run the prefix cache got the choice to send users of a kind to one engine.",
    cannot_say="Whether recommendations stay as good with 15 % of what is found computed again.",
)
