"""A28, adaptive DNN partitioning: where a network is cut between board, laptop and PC follows the links.

A board sends frame after frame through a network that is cut twice (`edge_split.py`), over links whose
bandwidth wanders. The idea probes both links every so many frames and chooses the cuts anew. Comparators
keep the cuts that are best at some bandwidth, tuned, or leave everything on one device. A figure is the mean
over all frames; probes cost what they cost, and energy is what devices draw beyond being idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from chakrakit.published import Case, Claim, Figures, Setting, Study, most
from chakrakit.published.devices.edge_chain import FRAMES, EdgeChain
from chakrakit.published.devices.edge_split import (
    MEGABITS,
    NETWORKS,
    WATTS,
    best_seconds,
    continuum,
    wandering,
)
from chakrakit.simulator import live

HOLDS_S = 4.0
"""For which a bandwidth holds."""


@cache
def _run(
    network: str, spread: float, setting: tuple[tuple[str, object], ...], seed: int
) -> Figures:
    chain = EdgeChain(network, dict(setting))
    world = live.World(continuum(), seed=seed, faults=wandering(spread, HOLDS_S, 400.0, seed))
    world.actor(chain.board, rank=0, name="board")
    for rank, (name, program) in enumerate((("laptop", chain.laptop), ("pc", chain.pc)), 1):
        world.actor(program, rank=rank, name=name, daemon=True)
    summary = world.run().summary
    idle = sum(watts for _, watts in WATTS.values()) * summary.end_ns / live.S
    seconds = sum(chain.latencies) / FRAMES
    joules = ((summary.energy_joules or 0.0) - idle) / FRAMES
    ideal = best_seconds(network, MEGABITS)
    return {"latency_s": seconds, "joules": joules, "of_ideal": ideal / seconds}


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Latency and energy of a frame, and how much energy is saved beside cuts that are best on average."""
    figures = _run(case["network"], case["spread"], tuple(setting.items()), seed)
    static = _run(case["network"], case["spread"], tuple(_kept(1.0).items()), seed)
    return {**figures, "energy_saved": 1 - figures["joules"] / static["joules"]}


def cases(quick: bool) -> Sequence[Case]:
    """Networks, and how far bandwidths wander; links that never change need nothing chosen anew."""
    names = ("MobileNetV2", "VGG16") if quick else tuple(NETWORKS)
    spreads = (0.0, 1.0) if quick else (0.0, 0.5, 1.0, 1.5)
    return [{"network": n, "spread": s} for n in names for s in spreads]


def _kept(at: float) -> dict[str, object]:
    """Cuts that are best at so many times the mean bandwidth."""
    return {"every": 0, "at": at, "all": ""}


STUDY = Study(
    id="A28",
    system="Adaptive DNN partitioning",
    family="devices",
    strength="strong",
    claims=[
        Claim("latency 6.34 to 22.92 % lower", 1 / 0.9366, 1 / 0.7708),
        Claim("energy 27.09 to 35.82 % lower", 0.2709, 0.3582, figure="energy_saved"),
    ],
    rests_on={
        "links whose bandwidth changes": "simulator/engine/disturb.py",
        "a choice before every frame": "simulator/live/world.py",
        "energy of devices that work, send and wait": "simulator/live/outcome.py",
    },
    cases=cases,
    sides={
        "adaptive": [{"every": n, "at": 1.0, "all": ""} for n in (1, 4, 16)],
        "kept cuts": [_kept(at) for at in (0.25, 0.5, 1.0, 2.0)],
        "one device": [{**_kept(1.0), "all": name} for name in ("board", "pc")],
    },
    idea="adaptive",
    untuned=["one device"],
    measure=measure,
    better=("latency_s", "min"),
    health="of_ideal",
    gone=lambda case: bool(case["spread"] == 0),
    ablate={"choosing anew": {"every": 0}},
    predictions={
        "no gain on constant links": lambda t: 1.02 - most(t.gains(spread=0.0)),
        "more gain the more links wander": lambda t: (
            most(t.gains(spread=1.0)) - most(t.gains(spread=0.0))
        ),
        "no more than 10 % of latency with a spread of 1": lambda t: (
            1 / 0.9 - most(t.gains(spread=1.0))
        ),
        "energy follows latency: less than 27 % saved": lambda t: (
            0.2709 - most(t.figure("energy_saved"))
        ),
    },
    decides="how often the best cut changes: a cut that is tuned for low bandwidths is rarely far from it.",
    amended="frames come at a steady pace, since a first trial was over before links changed; how well "
    "comparators stand is told beside the best cuts on constant links.",
    cannot_say="What boards really draw while they send, and networks that are changed to be cut.",
)
