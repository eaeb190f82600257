"""A19, FLTorrent: before a round of federated learning becomes a swarm, peers mix their chunks.

Whoever sees a chunk come from a peer is not to know that it is that peer's own update, so every peer first
collects a share of all chunks from others (`swarm.py`). GreedyFastestFirst gives a free upload to the
neighbour with the most download rate to spare; comparators draw one, or send the rarest chunk. The bound is
the max flow through uploads, overlay and downloads. What is left of the round afterwards is taken at the
slowest peer's full rate, with a warm-up or without.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from chakrakit.published import Case, Claim, Figures, Setting, Study, least, most
from chakrakit.published.protocols.swarm import Swarm, draw_peers, least_seconds

UPDATE = 14e9
"""Bytes of an update: 7 billion parameters of two bytes."""
UPLOADS = (1, 2, 4)


def measure(case: Case, setting: Setting, seed: int) -> Figures:
    """Seconds of the warm-up, its shares of the max-flow bound and of the round, and what it adds to that."""
    count, share = case["peers"], case["share"]
    own = max(1, round(case["chunks"] / (0.12 * count)))
    peers = draw_peers(count, case["slowest"], own, round(share * count * own), UPDATE / own, seed)
    swarm = Swarm(peers, setting["how"], random.Random(f"choices {seed}"))
    swarm.run(setting["uploads"], seed)
    plain = (count - 1) * UPDATE / peers.down.min()
    round_s = swarm.ended + plain - peers.need * peers.chunk / peers.down.min()
    sent = count * peers.need
    return {
        "warm_s": swarm.ended,
        "of_max_flow": least_seconds(peers) / swarm.ended if sent else float("nan"),
        "share": swarm.ended / round_s,
        "overhead": round_s / plain - 1,
        "own_sent": swarm.own_sent / sent if sent else 1.0,
    }


def cases(quick: bool) -> Sequence[Case]:
    """Peers, their slowest access link, and the chunks that each collects, about; or no warm-up at all."""
    sizes = ((40, 20),) if quick else ((100, 60), (250, 60), (500, 30))
    spread = [{"peers": n, "chunks": c, "slowest": 7.0, "share": 0.12} for n, c in sizes]
    first = spread[0]
    return [*spread, {**first, "slowest": 10.0}, {**first, "share": 0.0}]


STUDY = Study(
    id="A19",
    system="FLTorrent",
    family="protocols",
    strength="direction",
    claims=[
        Claim("about 92 % of the max-flow bound", 0.85, 1.0, figure="of_max_flow"),
        Claim("warm-up takes about 12 % of a round", 0.12, 0.12, kind="calibrated"),
        Claim("6 to 10 % longer rounds", 0.06, 0.10, figure="overhead", where={"share": 0.12}),
    ],
    rests_on={
        "peers that choose whenever an upload is free": "simulator/live/world.py",
        "flows that share access links": "simulator/live/planning.py",
    },
    cases=cases,
    sides={
        "GreedyFastestFirst": [{"how": "fastest", "uploads": u} for u in UPLOADS],
        "rarest first": [{"how": "rarest", "uploads": u} for u in UPLOADS],
        "drawn": [{"how": "draw", "uploads": u} for u in UPLOADS],
    },
    idea="GreedyFastestFirst",
    measure=measure,
    better=("warm_s", "min"),
    health="of_max_flow",
    gone=lambda case: bool(case["share"] == 0),
    ablate={"the fastest first": {"how": "draw"}},
    predictions={
        "85 to 100 % of the max-flow bound at every size": lambda t: (
            least(t.figure("of_max_flow", share=0.12)) - 0.85
        ),
        "the warm-up takes longer with the rarest chunk first": lambda t: (
            least(t.gains("rarest first", share=0.12)) - 1.02
        ),
        "and with a drawn neighbour": lambda t: least(t.gains("drawn", share=0.12)) - 1.02,
        "rounds are less than 3 % longer": lambda t: 0.03 - most(t.figure("overhead", share=0.12)),
    },
    decides="chunks of the warm-up need not be sent again, so it adds only what it loses against full rates.",
    amended="One trial of the quick cases came before the predictions were committed; afterwards cases "
    "were given other sizes.",
    cannot_say="Random lags before a peer begins, which are added to a round as they are; and what an "
    "attacker who watches several peers learns.",
)
