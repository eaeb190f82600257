"""The cost of a collective with a given algorithm and protocol, alone on the machine.

The cost has three parts, which the simulator treats separately: `fixed` time before anything moves,
`latency` spread over the steps, and `transfer`, which grows when links are shared.

    ring     launch + start + copy·c/b  +  steps·hop  +  steps·c/b + fill·min(size, in flight)·steps/(n·b)

where c = size/n is a piece and b = share·link. The LL protocol's hop is `hop·(1 + busy)` once its slots
are full (32 KiB), or `hop + c/b`, whichever is longer: transfers hide behind the hop until then. A broadcast
or reduction to one member moves its whole size once, slot after slot: it hides nothing behind hops, and its
copy runs beside the slots that follow.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from chakrakit.machines.library.constants import (
    Bridge,
    ExchangeConstants,
    Library,
    Protocol,
    ProtocolName,
    Span,
    rounds,
    steps,
)

US = 1e-6
"""Seconds in a microsecond."""
GB = 1e9
"""Bytes in a gigabyte, which NCCL and its tests count in powers of ten."""
SLOTS = 32 * 1024
"""Bytes of a collective at which the LL protocol's slots of one hop are full."""


class LibraryCost(NamedTuple):
    """Seconds by part, and how many steps the latency is spread over."""

    fixed: float
    latency: float
    transfer: float
    steps: int = 1

    @property
    def seconds(self) -> float:
        """The sum of all parts."""
        return self.fixed + self.latency + self.transfer


NEVER = LibraryCost(math.inf, 0.0, 0.0)


def cost(
    library: Library, collective: str, algorithm: str, protocol: str, size: float, span: Span
) -> LibraryCost:
    """The cost of a collective; infinite where the algorithm or protocol does not apply."""
    if collective in ("all-to-all", "gather", "scatter", "message"):
        return exchange(library, collective, size, span)
    if algorithm in ("in-switch", "in-switch-tree"):
        return _in_switch(library, collective, algorithm, size, span)
    constants = library.protocol(protocol)  # type: ignore[arg-type]
    if constants is None:
        return NEVER
    if algorithm == "tree":
        return _tree(library, constants, protocol, size, span)  # type: ignore[arg-type]
    return _ring(library, constants, protocol, collective, size, span)  # type: ignore[arg-type]


def rate(library: Library, constants: Protocol, span: Span) -> float:
    """Bytes/s along a ring: the slower of the links within a node and those between nodes."""
    inside = constants.share * span.link
    if (bridge := crossed(library, span)) is not None:
        inside *= bridge.share
    if span.nodes == 1:
        return inside
    return min(
        inside, library.network.share * constants.share / library.simple.share * span.leaving
    )


def between_nodes(hop_us: float, span: Span) -> float:
    """Seconds of a hop between nodes that takes `hop_us` on the network the constants are of."""
    return max(0.0, hop_us * US + span.farther)


def within_node(seconds: float, span: Span) -> float:
    """Seconds of a hop within a node that takes so many on the links the constants are of."""
    return max(0.0, seconds + span.farther_inside)


def average_hop(library: Library, seconds: float, members: int, span: Span) -> float:
    """Seconds of a hop within a node, averaged over a chain of `members`; fitted ones take `seconds`.

    Small groups tell the hop of a protocol hardly apart from its start. Beyond those that were fitted no
    hop takes less than one of LL, the protocol that was made for short hops.
    """
    fitted = library.fitted_members
    if fitted is None or members <= fitted:
        return seconds
    beyond = 1 - (fitted - 1) / (members - 1)
    return seconds + beyond * max(0.0, within_node(library.ll.hop_us * US, span) - seconds)


def crossed(library: Library, span: Span) -> Bridge | None:
    """The bridge between the halves of a node, where a group lies on both sides of it."""
    bridge = library.bridge
    return bridge if bridge is not None and span.local > bridge.members else None


def _ring(
    library: Library, p: Protocol, name: ProtocolName, collective: str, size: float, span: Span
) -> LibraryCost:
    n, hops = span.members, steps(collective, span.members)
    in_slots = collective in ("broadcast", "reduce")
    piece, passes = (size, 1) if in_slots else (size / n, hops)
    flow = piece / rate(library, p, span)
    far = rounds(collective) * (span.nodes - 1)
    near = within_node(p.hop_us * (1 + p.busy * min(1.0, size / SLOTS)) * US, span)
    if p.busy and not in_slots:
        near = max(near, within_node(p.hop_us * US, span) + flow) - flow
    near = average_hop(library, near, n, span)
    latency = (hops - far) * near + far * max(
        near, between_nodes(library.network.hop_us[name], span)
    )
    if (bridge := crossed(library, span)) is not None:
        latency += 2 * rounds(collective) * bridge.hop_us * US
    fixed = (library.launch_us + p.start_us) * US + (0.0 if in_slots else p.copy * flow)
    transfer = passes * flow
    if p.fill and size:
        transfer *= 1 + p.fill * min(1.0, p.in_flight / size)
    return LibraryCost(fixed, max(0.0, latency), transfer, hops)


def _tree(
    library: Library, p: Protocol, name: ProtocolName, size: float, span: Span
) -> LibraryCost:
    """Two trees over the nodes and a chain within each node; all data goes up and down once."""
    depth = math.ceil(math.log2(span.nodes)) if span.nodes > 1 else 0
    hop = within_node(p.hop_us * (1 + p.busy * min(1.0, size / SLOTS)) * US, span)
    hop = average_hop(library, hop, span.local, span)
    latency = 2 * (
        (span.local - 1) * hop + depth * between_nodes(library.network.tree_hop_us[name], span)
    )
    fixed = (library.launch_us + p.start_us) * US
    return LibraryCost(
        fixed, latency, 2 * size / rate(library, p, span), 2 * (span.local - 1 + depth)
    )


def _in_switch(
    library: Library, collective: str, algorithm: str, size: float, span: Span
) -> LibraryCost:
    switch, trees = library.in_switch, algorithm == "in-switch-tree"
    if (
        switch is None
        or not span.reduces
        or span.local < switch.least
        or collective != "all-reduce"
    ):
        return NEVER
    if trees != (span.nodes > 1):
        return NEVER
    flow = switch.share * span.link
    latency = 0.0
    if trees:
        depth = math.ceil(math.log2(span.nodes))
        latency = 2 * depth * between_nodes(library.network.tree_hop_us["Simple"], span)
        both = 1.0 if span.nodes == 2 else 0.5
        flow = min(flow, both * library.network.share * span.leaving)
    start = within_node((library.launch_us + switch.start_us) * US, span)
    return LibraryCost(start, latency, size / flow)


def low_latency_us(x: ExchangeConstants, collective: str, size: float, members: int) -> float:
    """Microseconds of an exchange in the low-latency protocol: start, peers, and the piece for one peer."""
    piece = size if collective == "message" else size / members
    peers = 1 if collective == "message" else members - 1
    return x.start_us + x.peer_us * (peers - 1) + piece / (x.low_latency_gbs * GB) / US


def exchange(library: Library, collective: str, size: float, span: Span) -> LibraryCost:
    """The cost of all members sending to all, or to one, at once.

    Small pieces use the low-latency protocol, large ones Simple.
    """
    x, n = library.exchange, span.members
    piece = size if collective == "message" else size / n
    peers = 1 if collective == "message" else n - 1
    quick = min(low_latency_us(x, collective, size, n), x.simple_us) * US
    if span.nodes > 1:
        quick += library.network.hop_us["LL"] * US
    bridge = crossed(library, span)
    flow = piece / (x.share * span.link * (bridge.exchange_share if bridge else 1.0))
    moved = peers * flow * (1 + x.fill * (min(1.0, x.in_flight / size) if size else 1.0))
    if span.nodes > 1:
        away = peers if collective == "message" else n - span.local
        moved = max(moved, away * piece / (library.network.share * (span.port or span.leaving)))
    start = x.flow_us * US + x.copy * flow
    beyond = span.farther if span.nodes > 1 else span.farther_inside
    before = max(quick - moved, start)
    # Where the fit tells the copy and the transfer apart wrongly, bytes still take what their links need.
    least = (peers if span.nodes == 1 else span.local - 1) * piece / span.link
    hidden = min(before, max(0.0, least - moved))
    wait = max(0.0, before - hidden + beyond)
    return LibraryCost(library.launch_us * US + wait, 0.0, moved + hidden)


ONE_BYTE_REDUCTION = 1.04
"""Reductions of one-byte elements take 3 to 5 % longer for as many bytes, measured on A100, H100, H200."""


def reduction_factor(collective: str, element_bytes: float) -> float:
    """The time to reduce bytes of these elements, as a multiple of that with two-byte elements."""
    reduces = collective in ("all-reduce", "reduce-scatter", "reduce")
    return ONE_BYTE_REDUCTION if reduces and element_bytes == 1 else 1.0
