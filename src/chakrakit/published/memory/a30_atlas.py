"""A30, ATLAS: inference of a graph network from disk by broadcast instead of gathering.

Gathering reads the features of every neighbour where they lie, at least a page each. Broadcasting reads all
features once, in order, and adds them to the results of their neighbours, which wait in memory until their
last message has come; what does not fit is swapped, the result with the fewest messages to come first.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from chakrakit.passes.tiers import Access, cached
from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.memory.graphs_on_disk import HOST, NVME, PAGE, small_graph

WIDTH, VERTICES = 512, 1600
"""Bytes of a vertex (128 features in FP32), and how many of them."""


@cache
def gathered(memory: float, seed: int, policy: str) -> tuple[float, float]:
    """Bytes read, and bytes written, of one layer with a cache of vertices' pages."""
    src = small_graph(VERTICES, seed).edges[0]
    pages = (src * WIDTH // PAGE).tolist()
    uses = [Access(str(p), PAGE) for p in pages]
    outcome = cached(uses, int(memory * VERTICES * WIDTH), policy)
    return float(outcome.read_bytes(uses)), float(VERTICES * WIDTH)


@cache
def broadcast(memory: float, seed: int, policy: str) -> tuple[float, float]:
    """All features once, in order; results in memory are read again when they were swapped."""
    src, dst = small_graph(VERTICES, seed).edges
    order = np.argsort(src, kind="stable")
    uses = [Access(str(v), WIDTH, True) for v in dst[order].tolist()]
    outcome = cached(uses, int(memory * VERTICES * WIDTH), policy)
    seen: set[str] = set()
    again = 0
    for use, hit in zip(uses, outcome.hits, strict=True):
        again += PAGE if not hit and use.key in seen else 0
        seen.add(use.key)
    return float(VERTICES * WIDTH + again), float(VERTICES * WIDTH + outcome.written_bytes)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of a layer by the bytes that the disk moves, and how often a byte is read."""
    way = broadcast if setting["broadcast"] else gathered
    read, written = way(case["memory"], seed % 100, setting["policy"])
    pace = float(np.exp(0.05 * np.random.default_rng([seed, 7]).standard_normal()))
    least_s = 2 * VERTICES * WIDTH / HOST
    seconds = max((read + written) / (NVME * pace), least_s)
    return {"seconds": seconds, "amplification": read / (VERTICES * WIDTH), "per_s": 1 / seconds}


def policies(is_broadcast: bool) -> list[Setting]:
    """Ways to evict."""
    return [{"broadcast": is_broadcast, "policy": p} for p in ("lru", "min-pending")]


STUDY = Study(
    id="A30",
    system="ATLAS",
    family="memory",
    strength="direction",
    claims=[
        Claim("12 to 30 times as fast as gathering out of core", 12.0, 30.0),
        Claim(
            "within 5 % where features fit into memory",
            0.95,
            1.05,
            figure="gain",
            where={"memory": 2.0},
        ),
    ],
    rests_on={
        "a cache that evicts by policy": "passes/tiers/held.py",
        "a graph with a power law": "workloads/parts/gnn.py",
        "orders of vertices by which few results are open at a time": "",
    },
    cases=lambda quick: [
        {"memory": m} for m in ((0.1, 0.5, 2.0) if quick else (0.05, 0.1, 0.23, 0.5, 1.0, 2.0))
    ],
    sides={"broadcast": policies(True), "gathering": policies(False)},
    idea="broadcast",
    measure=measure,
    better=("seconds", "min"),
    health="per_s",
    gone=lambda case: bool(case["memory"] >= 1.0),
    ablate={"broadcasting": {"broadcast": False}},
    predictions={
        "gathering reads most bytes several times where a tenth fits": lambda t: (
            t.figure("amplification", "gathering", memory=0.1).min(axis=0) - 3
        ),
        "broadcasting gains where a tenth fits": lambda t: least(t.gains(memory=0.1)) - 1.02,
        "about nothing is gained where all fits": lambda t: 1.05 - most(t.gains(memory=2.0)),
    },
    decides="how often a page is read again. Both may swap: a broadcast swaps results as gathering swaps "
    "features, so that orders of vertices decide, which are random here.",
    amended="the graph was made smaller and Belady's policy dropped, both for time; orders of vertices "
    "were named as an effect that is not modelled.",
    cannot_say="Random reads that are slower than reads in order, orders of vertices that real graphs have, "
    "and graphs of billions of edges.",
)
