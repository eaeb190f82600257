"""A24, Lakestream: batches for training through an object store, without a broker.

Eight producers prepare batches for eight trainers (`data_planes.py`). The idea writes them to a store of two
servers, and a manifest makes a batch visible to all at once; trainers read ahead. Comparators pass batches
through two brokers of the same links, or read raw data from the store and prepare it on cores beside the
trainers; each chooses how many cores
and how far ahead. What counts is the time of all steps, a crash included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from chakrakit.machines import machine
from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most, unsure
from chakrakit.published.resilience.data_planes import (
    PRODUCERS,
    SERVERS,
    STEPS,
    TRAINERS,
    DataPlane,
)
from chakrakit.simulator import live

FIRST = TRAINERS + PRODUCERS
"""The first node of brokers and servers."""
LINK = {"bandwidth": "25 Gb/s", "latency": "20 us"}
NODES = list(range(FIRST, FIRST + SERVERS))
LAKE = {
    "kind": "remote",
    "nodes": NODES,
    "bandwidth": "3 GB/s",
    "latency": "10 ms",
    "operations": 64,
}
SITE = {
    "network": [{"topology": "switch", "size": FIRST + SERVERS, **LINK}],
    "storage": {"lake": LAKE},
}


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of a step, the share that trainers waited, and batches that all trainers saw exactly once."""
    plane, world = (
        DataPlane(case, setting),
        live.World(unsure(machine(SITE), seed), seed=seed, record=False),
    )
    for i in range(TRAINERS):
        world.actor(plane.trainer, i, rank=i, name=f"trainer {i}")
        world.actor(plane.loader, i, rank=i, name=f"loader {i}")
    plane.group = world.group([f"trainer {i}" for i in range(TRAINERS)])
    if setting["plane"] != "beside":
        for i in range(PRODUCERS):
            world.actor(plane.producer, i, rank=TRAINERS + i, name=f"producer {i}")
    for i in range(SERVERS):
        world.actor(plane.broker, rank=FIRST + i, name=f"broker {i}", daemon=True)
    seconds = world.run().end_ns / live.S / STEPS
    once = sum(count == TRAINERS for count in Counter(plane.consumed).values())
    return {
        "seconds": seconds,
        "stall": plane.stalled / STEPS / seconds,
        "once": once / STEPS,
        "fed": 1 - plane.stalled / STEPS / seconds,
    }


def cases(quick: bool) -> Sequence[Case]:
    """Seconds of a step, megabytes of a part, crashes; long steps hide every way to load."""
    steps, sizes = ((0.3,), (50, 400)) if quick else ((0.1, 0.3), (50, 400, 1000))
    crashes = (False,) if quick else (False, True)
    loads = [
        {"step_s": s, "megabytes": m, "crash": c} for s in steps for m in sizes for c in crashes
    ]
    return [*loads, {"step_s": 20.0, "megabytes": 50, "crash": False}]


def _settings(plane: str, cores: Sequence[int]) -> list[dict[str, object]]:
    return [{"plane": plane, "cores": c, "ahead": a} for c in cores for a in (2, 8)]


STUDY = Study(
    id="A24",
    system="Lakestream",
    family="resilience",
    strength="direction",
    claims=[
        Claim("faster than loaders beside the trainers", 1.02, 1.02, figure="gain over beside"),
        Claim("and than a broker", 1.02, 1.02, figure="gain over broker"),
        Claim("every batch is seen once by all", 1.0, 1.0, "ours", "once"),
    ],
    rests_on={
        "operations and links of a store's servers": "simulator/live/planning.py",
        "producers, loaders and trainers that wait for each other": "simulator/live/verbs.py",
        "a barrier after every step": "simulator/live/planning.py",
    },
    cases=cases,
    sides={
        "store": _settings("store", (16, 64)),
        "broker": _settings("broker", (16, 64)),
        "beside": _settings("beside", (2, 8)),
    },
    idea="store",
    measure=measure,
    better=("seconds", "min"),
    health="fed",
    gone=lambda case: bool(case["step_s"] == 20.0),
    ablate={"producers apart from trainers": {"plane": "beside", "cores": 2}},
    predictions={
        "over 1.2 times over loaders beside the trainers for short steps": lambda t: (
            least(t.gains("beside", step_s=0.3, megabytes=50)) - 1.2
        ),
        "less than 5 % over a broker of equal links for small parts": lambda t: (
            1.05 - most(t.gains("broker", megabytes=50))
        ),
        "1 times for long steps": lambda t: 0.35 - most(abs(t.gains("broker", step_s=20.0) - 1)),
        "every batch is seen once by all": lambda t: least(t.figure("once")) - 0.999,
    },
    decides="links: batches cross them twice with a broker as with a store, so that it is cores beside the "
    "trainers, and servers that read and write at once, which tell the ways apart.",
    amended="loaders beside the trainers read their data from the store, since at first they had it for "
    "nothing; machine constants are drawn by the seed; how well comparators stand is told by stalls.",
    cannot_say="Kafka's own costs per record, conflicts of many writers, and lost brokers.",
)
