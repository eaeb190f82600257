"""Collectives as a communication library runs them: its choice, its cost, and the steps that stand for it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from chakrakit.arrays import I64
from chakrakit.machines.library import (
    SLOTS,
    Choice,
    Library,
    LibraryCost,
    Protocol,
    Span,
    choose,
    cost,
    crossed,
)
from chakrakit.simulator.collectives import algorithms as a
from chakrakit.simulator.collectives.collective_steps import CollectiveSteps, step

_NAMES = {"double-tree": "tree"}
"""The library's name of an algorithm, where it differs."""


class LibraryCall(NamedTuple):
    """The library's choice for a collective, and its cost alone on the machine."""

    choice: Choice
    cost: LibraryCost


def library_call(
    library: Library, collective: str, size: float, span: Span, algorithm: str = ""
) -> LibraryCall | None:
    """The library's own choice, or its best protocol for the algorithm where one is named.

    None where the library lacks the algorithm, or does not use it for a group with this span.
    """
    kind = "all-reduce" if collective == "barrier" else collective
    if not algorithm:
        choice = choose(library, kind, size, span)
        return LibraryCall(choice, cost(library, kind, *choice, size, span))
    name = _NAMES.get(algorithm, algorithm)
    exchanged = collective in ("all-to-all", "gather", "scatter")
    if (name == "direct") != exchanged or name not in ("direct", "ring", "tree", "in-switch"):
        return None
    candidates = [
        LibraryCall(Choice(name, p), cost(library, kind, name, p, size, span))
        for p in ("LL", "LL128", "Simple")
    ]
    best = min(candidates, key=lambda call: call.cost.seconds)
    return best if best.cost.seconds < math.inf else None


def plain_cost(library: Library) -> float:
    """Seconds before the start of an algorithm that the library lacks, as with its Simple protocol."""
    return (library.launch_us + library.simple.start_us) * 1e-6


class Pace(NamedTuple):
    """What a library's kernels make of an algorithm of one's own."""

    stretch: float
    """Of the time that bytes take on links."""
    hop: float
    """Seconds for each step."""
    fixed: float
    """Seconds before the first step."""


def own_pace(library: Library, size: float, rounds: int, flow: float, span: Span) -> Pace:
    """The pace of an algorithm that the library runs for a user: of its protocols the fastest one.

    `rounds` are consecutive steps, and `flow` the seconds that the bytes of all of them take on links.
    """
    bridge = crossed(library, span)
    flow = flow / bridge.share if bridge else flow
    paces = [
        _protocol_pace(library, p, size, flow / max(1, rounds))
        for p in (library.ll, library.ll128, library.simple)
        if p is not None
    ]
    best = min(paces, key=lambda p: p.fixed + rounds * p.hop + flow * p.stretch)
    if bridge is None:
        return best
    return Pace(best.stretch / bridge.share, best.hop, best.fixed + 2 * bridge.hop_us * 1e-6)


def _protocol_pace(library: Library, p: Protocol, size: float, each: float) -> Pace:
    """The terms of a ring in this protocol (see `cost.py`), step by step."""
    stretch = (1 + p.fill * min(1.0, p.in_flight / size if size else 1.0)) / p.share
    hop = p.hop_us * (1 + p.busy * min(1.0, size / SLOTS)) * 1e-6
    if p.busy:  # transfers hide behind the hop until the slots are full
        hop = max(hop, p.hop_us * 1e-6 + each / p.share) - each / p.share
    fixed = (library.launch_us + p.start_us) * 1e-6 + p.copy * each / p.share
    return Pace(stretch, hop, fixed)


def rail_ring(collective: str, node: I64) -> CollectiveSteps:
    """One ring for every device of a node; each ring leaves the node through that device's port.

    `node[i]` is the node of member i. The rings run side by side, each with a part of the data, so that
    all ports carry equal traffic. There is one ring where nodes have different numbers of members.
    """
    orders = _orders(node)
    n, rings = len(node), len(orders)
    rounds = [True, False] if collective == "all-reduce" else [collective == "reduce-scatter"]
    steps = []
    for reduce in rounds:
        src = np.concatenate(orders)
        dst = np.concatenate([np.roll(o, -1) for o in orders])
        first = np.concatenate([(np.arange(n) - reduce) % n for _ in orders])
        base = np.repeat(np.arange(rings) * n, n)
        steps.append(step(src, dst, first, 1, n, reduce=reduce, base=base, repeat=n - 1, shift=-1))
    return CollectiveSteps(n, n * rings, tuple(steps), name="ring")


def _orders(node: I64) -> list[I64]:
    by_node = [np.flatnonzero(node == v) for v in np.unique(node)]
    local = len(by_node[0])
    if local == 1 or any(len(m) != local for m in by_node):
        return [np.concatenate(by_node)]
    orders = []
    for k in range(local):
        # Odd nodes are passed the other way round, so that a ring goes on where it came in.
        forth = (k + np.arange(local)) % local
        back = (k - 1 - np.arange(local)) % local
        orders.append(np.concatenate([m[back if v % 2 else forth] for v, m in enumerate(by_node)]))
    return orders


IN_CHUNKS = ("broadcast", "reduce")
"""Collectives that pass around the ring in one chunk per member, so that transfers grow quadratically."""


def library_steps(
    call: LibraryCall, collective: str, n: int, root: int, node: I64
) -> CollectiveSteps:
    """The schedule that represents the library's choice on the machine's links."""
    name = call.choice.algorithm
    if collective in IN_CHUNKS:
        return (a.ring_broadcast if collective == "broadcast" else a.ring_reduce_to)(n, n, root)
    if collective in ("all-to-all", "gather", "scatter"):
        return _exchanged(collective, n, root)
    kind = "all-reduce" if collective == "barrier" else collective
    if name == "in-switch":
        return a.switch_all_reduce(n)
    if name == "tree":
        return a.tree_all_reduce(n, 8)
    return rail_ring(kind, node)


def _exchanged(collective: str, n: int, root: int) -> CollectiveSteps:
    if collective == "all-to-all":
        return a.direct_all_to_all(n)
    return a.direct_gather(n, root) if collective == "gather" else a.direct_scatter(n, root)
