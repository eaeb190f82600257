"""A05, decentralized discovery of agents: how well overlays of 4,096 nodes find owners while nodes change.

Nodes stay for minutes, and know others as they were when they last looked (`overlays.py`). Searchers ask
them over a wide-area network and wait half a second for those that have gone. Kademlia asks several at
once and knows several per distance; Chord has successors and Pastry leaves to spare. How many, and how
often nodes look, each chooses; what looking costs is a figure.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.protocols.overlays import SPACE, Churn, Lookup, Overlay, OverlayNode
from chakrakit.simulator import live

AWAY_S, SPAN_S = 60.0, 30.0
"""How long a node is away, and over how long searches begin."""


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """The share of searches that found the owner, seconds and questions of a search, and upkeep."""
    nodes, rng = case["nodes"], np.random.default_rng([seed, 5])
    ids = np.sort(rng.choice(np.int64(SPACE), nodes, replace=False))
    churn = Churn.draw(nodes, case["stays_s"], AWAY_S, SPAN_S + 30, seed)
    overlay = Overlay(setting["kind"], setting, ids, churn)
    site = {"topology": "switch", "size": nodes, "bandwidth": "100 Mb/s", "latency": "20 ms"}
    world = live.World({"network": [site]}, seed=seed, record=False)
    for node in range(nodes):
        faults = churn.crashes(node)
        world.actor(OverlayNode(overlay), rank=node, name=f"node {node}", faults=faults)
    there = np.flatnonzero(churn.there(0.0))
    lookups = []
    for number in range(case["searches"]):
        lookups.append(Lookup(overlay, int(rng.integers(SPACE))))
        node, at = int(rng.choice(there)), float(rng.uniform(0, SPAN_S))
        name = f"search {number}"
        world.actor(lookups[-1].run, node, rank=node, name=name, at_ns=at * live.S)
    world.run()
    tables = [len(table) for table in overlay.tables.values()]
    return {
        "found": float(np.mean([x.found for x in lookups])),
        "seconds": float(np.mean([x.seconds for x in lookups])),
        "asked": float(np.mean([x.asked for x in lookups])),
        "upkeep": float(np.mean(tables)) * 3600 / setting["refresh_s"],
    }


def cases(quick: bool) -> Sequence[Case]:
    """How long nodes stay, among 4,096; where all stay every overlay finds every owner."""
    nodes, searches = (64, 25) if quick else (4096, 200)
    stays = (0, 120, 600) if quick else (0, 120, 600, 1800)
    return [{"nodes": nodes, "searches": searches, "stays_s": s} for s in stays]


def _settings(kind: str, spares: Sequence[int], at_once: int) -> list[dict[str, object]]:
    upkeep = [(spares[0], 30), (spares[1], 60), (spares[2], 120)]
    return [
        {"kind": kind, "spare": s, "refresh_s": every, "at_once": at_once} for s, every in upkeep
    ]


STUDY = Study(
    id="A05",
    system="Discovery of agents by overlays",
    family="protocols",
    strength="direction",
    claims=[
        Claim(
            "over 95 % found while nodes stay for 10 minutes",
            0.95,
            1.0,
            "ours",
            "found",
            {"stays_s": 600},
        ),
        Claim("and found more often than by one at a time", 1.02, 1.02, "ours"),
    ],
    rests_on={
        "4,096 nodes that leave and join": "simulator/live/faults.py",
        "questions with timeouts": "simulator/live/verbs.py",
        "messages over a network": "simulator/live/planning.py",
    },
    cases=cases,
    sides={
        "Kademlia": _settings("Kademlia", (4, 8, 16), 3),
        "Chord": _settings("Chord", (4, 8, 16), 1),
        "Pastry": _settings("Pastry", (8, 16, 32), 1),
    },
    idea="Kademlia",
    measure=measure,
    better=("found", "max"),
    health="found",
    gone=lambda case: bool(case["stays_s"] == 0),
    ablate={"several known per distance, and several asked": {"spare": 1, "at_once": 1}},
    predictions={
        "every owner is found where all stay": lambda t: (
            least(t.figure("found", stays_s=0)) - 0.999
        ),
        "Kademlia finds over 95 % where nodes stay for 10 minutes": lambda t: (
            least(t.figure("found", stays_s=600)) - 0.95
        ),
        "Kademlia searches take less time than Chord's where nodes stay for 2 minutes": lambda t: (
            least(t.figure("seconds", "Chord", stays_s=120) - t.figure("seconds", stays_s=120))
        ),
        "and ask more nodes": lambda t: least(
            t.figure("asked", stays_s=120) - t.figure("asked", "Chord", stays_s=120)
        ),
        "no overlay is 5 % better than another where nodes stay for half an hour": lambda t: (
            1.05 - most(t.gains(stays_s=1800))
        ),
    },
    decides="who is the owner changes with the nodes near a key, whatever the overlay: what is found then "
    "depends on how fresh the nearest tables are, not on how a search gets there.",
    cannot_say="Repairs that are made when a node is found to be gone, and nodes that lie.",
)
