"""A02, NCCLZ: gradients quantized before a collective and coded inside it, overlapped with the transfer.

Plain sums choose their algorithm, their pieces, and whether to reduce within nodes first; coded sums choose
their scheme and pieces. Ratio and rate of the codec are not chosen but given. `in turn` compresses, sends and
decompresses one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most, seconds_of
from chakrakit.published.communication.gradient_codecs import message, site

ALGORITHMS: dict[str, dict[str, str]] = {
    "auto": {},
    "ring": {"all-reduce": "ring", "all-gather": "ring", "all-to-all": "pairwise"},
    "hierarchical": {"all-reduce": "hierarchical"},
}


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of a sum, and the rate at which its bytes are summed."""
    traces = message(
        int(case["megabytes"] * 1e6),
        setting["scheme"],
        setting["pieces"],
        case["ratio"],
        case["codec"],
    )
    how = ALGORITHMS[setting["algorithm"]]
    seconds = seconds_of(traces, site(case["link"], seed), "measured", how, share_compute=True)
    wire = case["megabytes"] * 8e-3 / case["link"]
    return {"seconds": seconds, "efficiency": wire / seconds}


def cases(quick: bool) -> Sequence[Case]:
    """Messages and links from small and slow to large and fast; a codec as published, and a slow one."""
    usual = {"ratio": 10.0, "codec": 200.0}
    shapes = [(0.004, 100), (16, 10), (256, 100)]
    if not quick:
        shapes = [(size, link) for size in (0.004, 1, 16, 256) for link in (10, 100, 1600)]
    found = [{"megabytes": size, "link": link, **usual} for size, link in shapes]
    slow = [{"megabytes": 256, "link": link, "ratio": 2.0, "codec": 50.0} for link in (10, 1600)]
    return found if quick else found + slow


def ways(
    schemes: tuple[str, ...], algorithms: tuple[str, ...], pieces: tuple[int, ...]
) -> list[Setting]:
    """All combinations."""
    return [
        {"scheme": s, "algorithm": a, "pieces": p}
        for s in schemes
        for a in algorithms
        for p in pieces
    ]


STUDY = Study(
    id="A02",
    system="NCCLZ",
    family="communication",
    strength="strong",
    claims=[
        Claim("up to 9.65 times as fast as plain collectives", 9.65, 9.65),
        Claim(
            "up to 3.34 times as fast as coding in turn",
            3.34,
            3.34,
            figure="gain over coded in turn",
        ),
    ],
    rests_on={
        "collectives on real routes": "simulator/collectives/choice.py",
        "codecs that share the device": "passes/comm/compress.py",
        "pieces that follow each other": "simulator/engine/native.py",
    },
    cases=cases,
    sides={
        "coded in pieces": ways(("flat", "nested"), ("auto",), (1, 4, 16)),
        "plain, tuned": ways(("plain",), ("auto", "ring", "hierarchical"), (1, 8))
        + ways(("plain nested",), ("auto", "ring"), (1, 8)),
        "plain": ways(("plain",), ("auto",), (1,)),
        "coded in turn": ways(("flat", "nested"), ("auto",), (1,)),
    },
    idea="coded in pieces",
    untuned=["plain", "coded in turn"],
    measure=measure,
    better=("seconds", "min"),
    health="efficiency",
    gone=lambda case: bool(case["megabytes"] < 0.1 or case["link"] >= 1600),
    ablate={"coding": {"scheme": "plain"}},
    predictions={
        "small messages lose at any ratio": lambda t: 1.0 - most(t.gains(megabytes=0.004)),
        "large ones gain at most the ratio": lambda t: 10.0 - most(t.gains(ratio=10.0)),
        "9.65 times is not reached against the best plain algorithm": lambda t: (
            9.65 - most(t.gains())
        ),
        "cutting into pieces gains under 3 times": lambda t: 3 - most(t.gains("coded in turn")),
        "the fastest links gain nothing": lambda t: 1.02 - most(t.gains(link=1600)),
        "slow links gain from 1 MB on": lambda t: (
            least(t.gains(link=10, megabytes=lambda m: m >= 1)) - 1
        ),
    },
    decides="the plain side: one that reduces within nodes first sends an eighth over the slow links, so "
    "the gain is the ratio at most. Coding is fast beside the wire, and little is left to overlap.",
    cannot_say="Real ratios, which depend on the gradients, and what they do to convergence; entropy coding "
    "at every hop of a ring, as data is coded at the ends of an exchange.",
)
