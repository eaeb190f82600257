"""A09, GriNNder: a graph network whose features live on disk, trained on one GPU through a cache.

Features and results of layers are read from NVMe through a cache in host memory. GriNNder caches partitions
as wholes, reads them in order and computes results again instead of writing them; the comparator swaps the
vertices that are needed, a page each, and may choose how its cache evicts. The graph is small; what counts is
the ratio of host memory to the working set.
"""

from __future__ import annotations

from functools import cache

from chakrakit.passes import Cache
from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most, seconds_of
from chakrakit.published.memory.graphs_on_disk import graph, site, working_set
from chakrakit.trace.sets import TraceSet
from chakrakit.workloads.parts import GnnStep, generate_gnn

LAYERS = 2


@cache
def traces(memory: float, seed: int, whole: bool, write: bool, policy: str) -> TraceSet:
    """A step of training through a cache of this share of the working set."""
    step = GnnStep(layers=LAYERS, storage="nvme", whole=whole, write=write)
    room = int(memory * working_set(step, seed))
    return generate_gnn(graph(seed), step) | Cache(
        tier="nvme", capacity=room, policy=policy, near="host"
    )


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of a step, steps a second, and what is written to disk."""
    how = setting["whole"], setting["write"], setting["policy"]
    work = traces(case["memory"], seed % 100, *how)
    seconds = seconds_of(work, site(seed))
    return {"seconds": seconds, "per_s": 1 / seconds}


POLICIES = ("lru", "partition", "min-pending")
STUDY = Study(
    id="A09",
    system="GriNNder",
    family="memory",
    strength="direction",
    claims=[Claim("up to 9.78 times as fast as swapping", 9.78, 9.78)],
    rests_on={
        "a cache that evicts by policy": "passes/tiers/held.py",
        "reads in whole pages": "machines/fabric/links.py",
        "gather, aggregate and update": "workloads/parts/gnn.py",
    },
    cases=lambda quick: [
        {"memory": m} for m in ((0.1, 0.5, 2.0) if quick else (0.05, 0.1, 0.25, 0.5, 1.0, 2.0))
    ],
    sides={
        "partitions": [{"whole": True, "write": False, "policy": p} for p in POLICIES],
        "swapped by page": [{"whole": False, "write": True, "policy": p} for p in POLICIES],
    },
    idea="partitions",
    measure=measure,
    better=("seconds", "min"),
    health="per_s",
    gone=lambda case: bool(case["memory"] >= 1.0),
    ablate={"partitions read whole, results computed again": {"whole": False, "write": True}},
    predictions={
        "the less memory, the more is gained": lambda t: (
            least(t.gains(memory=0.1)) - most(t.gains(memory=0.5))
        ),
        "where all fits into host memory nothing is gained": lambda t: (
            1.02 - most(t.gains(memory=2.0))
        ),
    },
    decides="pages: a vertex that is swapped costs 4,096 bytes for its 512, and every partition that "
    "needs it reads a copy of its own first, however much memory there is. Whole partitions are read "
    "about once as soon as half of the working set fits, so that the gain grows up to there, and it "
    "does not vanish where all fits.",
    amended="keys of the cache, the size of the graph, and what the claim is said to rest on: page "
    "faults that come one after another are now among what the study cannot say.",
    cannot_say="Graphs of billions of edges: only the ratio of memory to working set is kept. One step from "
    "a cold cache is measured, so that pages cost their first read even where all fits. Page faults that "
    "come one after another, and results that are computed again, cost nothing more here.",
)
