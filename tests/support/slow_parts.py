"""What the slow simulator is made of: nodes, flows, jobs, and the fair shares of links."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

TIE = 1 + 1e-9


@dataclass(eq=False)
class Node:
    rank: int
    row: int
    kind: str  # plain, compute, comm
    duration: int
    lane: tuple | None
    pool: bool
    order: tuple
    priority: int
    share: int  # of its device, in millionths
    waves: int
    start_waits: list = field(default_factory=list)  # (node, event, lag)
    end_waits: list = field(default_factory=list)
    start: int = -1
    end: int = -1
    done: int = -1  # when its own work is over
    ready: int = -1
    previous: Node | None = None
    job: Job | None = None
    remaining: float = 0.0
    rate: float = 0.0
    since: int = 0


@dataclass(eq=False)
class Flow:
    links: list
    remaining: float
    at: int  # when it enters the links
    rate: float = 0.0
    since: int = 0
    ends: int | None = None
    done: bool = False


@dataclass(eq=False)
class Job:
    steps: list  # (transfers, repeat, after)
    nodes: list
    needed: int
    overhead: int
    go: int = -1
    ended: int = -1
    rounds: list = field(default_factory=list)
    flows: dict = field(default_factory=dict)
    done: set = field(default_factory=set)


def time_at_rate(work: float, rate: float) -> int:
    """Picoseconds, of which what a quotient of sums is off by makes none more."""
    picoseconds = work / rate
    return math.ceil(picoseconds - min(picoseconds * 1e-12, 1e-3))


def fair(flows: list[Flow], capacity: dict) -> dict:
    """Progressive filling over one component; what is used of a link is summed exactly."""
    used = {link: 0 for f in flows for link in f.links}
    open_flows = {link: [f for f in flows if link in f.links] for link in used}
    rates: dict = {}
    while len(rates) < len(flows):
        left = {k: max(0.0, capacity[k] - math.ldexp(float(used[k]), -80)) for k in used}
        share = {k: left[k] / len(v) for k, v in open_flows.items() if v}
        least = min(share.values())
        chosen = {f for k, s in share.items() if s <= least * TIE for f in open_flows[k]}
        for f in chosen:
            rates[f] = least
        for link in used:
            gone = sum(f in chosen for f in open_flows[link])
            used[link] += int(math.ldexp(least, 80)) * gone
            open_flows[link] = [f for f in open_flows[link] if f not in chosen]
    return rates


def components(flows: list[Flow]) -> list[list[Flow]]:
    found: list[tuple[set, list]] = []
    for f in flows:
        touching = [c for c in found if c[0] & set(f.links)]
        merged = (
            set(f.links).union(*(c[0] for c in touching)),
            [g for c in touching for g in c[1]] + [f],
        )
        found = [c for c in found if c not in touching] + [merged]
    return [c[1] for c in found]
