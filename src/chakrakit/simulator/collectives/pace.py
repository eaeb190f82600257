"""Collectives as a communication library runs them: its choice, its cost, and the steps that stand for it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
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
    average_hop,
    choose,
    cost,
    crossed,
)
from chakrakit.simulator.collectives import algorithms as a
from chakrakit.simulator.collectives.collective_steps import (
    SWITCH,
    CollectiveSteps,
    TransferStep,
    step,
)

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
        _protocol_pace(library, p, size, flow / max(1, rounds), span)
        for p in (library.ll, library.ll128, library.simple)
        if p is not None
    ]
    best = min(paces, key=lambda p: p.fixed + rounds * p.hop + flow * p.stretch)
    if bridge is None:
        return best
    return Pace(best.stretch / bridge.share, best.hop, best.fixed + 2 * bridge.hop_us * 1e-6)


def _protocol_pace(library: Library, p: Protocol, size: float, each: float, span: Span) -> Pace:
    """The terms of a ring in this protocol (see `cost.py`), step by step."""
    stretch = (1 + p.fill * min(1.0, p.in_flight / size if size else 1.0)) / p.share
    hop = p.hop_us * (1 + p.busy * min(1.0, size / SLOTS)) * 1e-6
    if p.busy:  # transfers hide behind the hop until the slots are full
        hop = max(hop, p.hop_us * 1e-6 + each / p.share) - each / p.share
    hop = average_hop(library, hop, span.members, span)
    fixed = (library.launch_us + p.start_us) * 1e-6 + p.copy * each / p.share
    return Pace(stretch, hop, fixed)


def rail_ring(collective: str, node: I64) -> CollectiveSteps:
    """One ring for every device of a node; each ring leaves the node through that device's port.

    `node[i]` is the node of member i. The rings run side by side, each with a part of the data, so that
    all ports carry equal traffic. Nodes with more members than the smallest leave some of their ports idle.
    """
    orders = [np.concatenate(rail) for rail in _rails(node, zigzag=True)]
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


def rail_chain(collective: str, node: I64, root: int) -> CollectiveSteps:
    """A broadcast or a reduction to the root along the rings of `rail_ring`, all hops at once.

    Chunks follow each other so closely that every hop is busy all the time: each carries its ring's part
    of the data once.
    """
    orders = [np.concatenate(rail) for rail in _rails(node, zigzag=True)]
    chains = [np.roll(o, -int(np.flatnonzero(o == root)[0])) for o in orders]
    before = np.concatenate([c[:-1] for c in chains])
    after = np.concatenate([c[1:] for c in chains])
    reduce = collective == "reduce"
    ends = (after, before) if reduce else (before, after)
    flow = _flowing(*ends, np.ones(len(before), np.int64), len(chains), reduce)
    return CollectiveSteps(len(node), len(chains), (flow,), name="ring")


def rail_tree(node: I64) -> CollectiveSteps:
    """Two trees over the nodes for every device of a node, with a chain through the node below each place.

    Each rail has a part of the data, and each of its trees half of that. Chunks follow each other so
    closely that all edges are busy all the time, upwards and downwards: each carries its part once each way.
    """
    rails = list(_rails(node, zigzag=False))
    child = np.concatenate([chain[1:] for rail in rails for chain in rail])
    parent = np.concatenate([chain[:-1] for rail in rails for chain in rail])
    low, high = _tree_edges([np.array([chain[0] for chain in rail]) for rail in rails])
    child, parent = np.concatenate([child, low]), np.concatenate([parent, high])
    halves = np.r_[np.full(len(child) - len(low), 2), np.ones(len(low), np.int64)]
    steps = _up_and_down(child, parent, halves, 2 * len(rails))
    return CollectiveSteps(len(node), 2 * len(rails), steps, name="double-tree")


def in_switch_tree(node: I64) -> CollectiveSteps:
    """Every node's switch reduces and copies; two trees over the nodes join each device's part."""
    rails = list(_rails(node, zigzag=False))
    n, pieces = len(node), 2 * len(rails)
    low, high = _tree_edges([np.array([chain[0] for chain in rail]) for rail in rails])
    members, switch = np.arange(n, dtype=np.int64), np.full(n, SWITCH)
    everything = np.full(n, pieces)
    steps = _up_and_down(
        np.concatenate([members, low]),
        np.concatenate([switch, high]),
        np.concatenate([everything, np.ones(len(low), np.int64)]),
        pieces,
    )
    return CollectiveSteps(n, pieces, steps, name="in-switch-tree")


def _rails(node: I64, *, zigzag: bool) -> Iterator[list[I64]]:
    """For each rail the members of every node in order, as many rails as the smallest node has members.

    Rail k enters each node at another device. With `zigzag` odd nodes are passed the other way round, so
    that a ring goes on where it came in.
    """
    by_node = [np.flatnonzero(node == v) for v in np.unique(node)]
    for k in range(min(len(members) for members in by_node)):
        rail = []
        for v, members in enumerate(by_node):
            place = np.arange(len(members))
            back = zigzag and v % 2
            rail.append(members[(k - 1 - place if back else k + place) % len(members)])
        yield rail


def _tree_edges(heads: list[I64]) -> tuple[I64, I64]:
    """The children and parents of two trees over the nodes, for each rail between its heads."""
    trees = a.double_tree(len(heads[0]))
    ends = [(head[tree.child], head[tree.parent]) for head in heads for tree in trees]
    return np.concatenate([c for c, _ in ends]), np.concatenate([p for _, p in ends])


def _up_and_down(
    child: I64, parent: I64, count: I64, pieces: int
) -> tuple[TransferStep, TransferStep]:
    """All edges at once, towards the parents and back from them."""
    up = _flowing(child, parent, count, pieces, reduce=True)
    return up, replace(_flowing(parent, child, count, pieces, reduce=False), joined=True)


def _flowing(src: I64, dst: I64, count: I64, pieces: int, reduce: bool) -> TransferStep:
    """Transfers that flow at once, those between the same two members as one.

    They are streams: which pieces are in one of them does not matter to anything, only how many.
    """
    pairs, where = np.unique(np.stack([src, dst]), axis=1, return_inverse=True)
    sums = np.bincount(where.reshape(-1), count).astype(np.int64)
    return step(pairs[0], pairs[1], 0, sums, pieces, reduce=reduce)


def library_steps(
    call: LibraryCall, collective: str, n: int, root: int, node: I64
) -> CollectiveSteps:
    """The schedule that represents the library's choice on the machine's links, over all its channels."""
    name = call.choice.algorithm
    if collective in ("broadcast", "reduce"):
        return rail_chain(collective, node, root)
    if collective in ("all-to-all", "gather", "scatter"):
        return _exchanged(collective, n, root)
    kind = "all-reduce" if collective == "barrier" else collective
    if name == "in-switch":
        return a.switch_all_reduce(n)
    if name == "in-switch-tree":
        return in_switch_tree(node)
    if name == "tree":
        return rail_tree(node)
    return rail_ring(kind, node)


def _exchanged(collective: str, n: int, root: int) -> CollectiveSteps:
    if collective == "all-to-all":
        return a.direct_all_to_all(n)
    return a.direct_gather(n, root) if collective == "gather" else a.direct_scatter(n, root)
