"""Communication kernels of engines: all-reduce in serving, and dispatch and combine of experts.

In the all-reduce every member reads its peers' memory. One-shot: each member reads and adds all of every
peer's buffer. Two-shot: each reduces its own piece, and after a barrier reads the others' results.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from chakrakit.errors import ConfigError
from chakrakit.machines.library.constants import EngineKernels, ExpertKernels, Span
from chakrakit.machines.library.cost import GB, NEVER, US, LibraryCost, between_nodes, within_node


def engine_kernel(engine: EngineKernels, size: float, span: Span) -> str:
    """The kernel that an engine uses for this size: `one-shot` or `two-shot`."""
    if span.members == 2:
        return "one-shot"
    most = next((b for n, b in sorted(engine.one_shot.items()) if span.members <= n), 0)
    return "one-shot" if size < most else "two-shot"


def engine_cost(
    engine: EngineKernels, size: float, span: Span, *, eager: bool = False
) -> LibraryCost:
    """The cost of an engine's all-reduce; infinite where it calls the library instead.

    It does so between nodes and above its size limit.
    """
    if span.nodes > 1 or size > engine.most:
        return NEVER
    peers, flow = span.members - 1, size / (engine.share * span.link)
    one_shot = engine_kernel(engine, size, span) == "one-shot"
    if not one_shot and not engine.two_shot:
        return NEVER
    fixed = engine.start_us + engine.peer_us * peers + (0.0 if one_shot else engine.barrier_us)
    transfer = peers * flow if one_shot else 2 * peers / span.members * flow
    if eager:
        fixed = max(fixed, engine.eager_us - transfer / US)
    return LibraryCost(within_node(fixed * US, span), 0.0, transfer)


# Dispatch and combine of mixtures of experts across nodes, as in DeepEP.
#
# The throughput kernels send a token once to every node that has one of its experts, and from there to the
# devices; the low-latency kernels send it to every expert by itself. Routing is uniform: a token's experts
# are any `topk` of all, so it reaches a part of the machine that holds a share s of the experts with
# probability 1 - C(experts·(1 - s), topk) / C(experts, topk). Routing limited to `most_nodes` takes the nodes
# with a token's best experts, and its experts from those.
#
# throughput    start + node·nodes + filling + tokens · max(network, links, copying)
# low latency   start + hop·log2(nodes) + tokens · topk · max(network, links)


SCALES = 4 / 128
"""Bytes of scales per byte of FP8: four for every 128 elements."""
HEADER = 16
"""Bytes of metadata with every token of a dispatch."""
CHANNEL, CHUNK = 2, 32
"""Of DeepEP's throughput kernels between nodes: multiprocessors of a channel, and tokens that a channel
gathers for a node before it sends them, the most that its tuning tries. Fits on 2 nodes are best with it."""


class Routing(NamedTuple):
    """What is exchanged: tokens per rank, their width, and `topk` of all `experts` for each token."""

    tokens: int
    hidden: int
    topk: int
    experts: int
    most_nodes: int = 0
    """That a token may go to; 0 for as many as have its experts."""

    def check(self, members: int, nodes: int = 1) -> None:
        """Raises an error unless the experts can be spread over the members."""
        if min(self[:4]) < 1 or self.most_nodes < 0:
            raise ConfigError(
                f"{self}: tokens, hidden, topk and experts must be 1 or more, most_nodes 0 or more"
            )
        if self.topk > self.experts:
            raise ConfigError(
                f"topk {self.topk} of {self.experts} experts; give fewer than there are"
            )
        if self.experts < members:
            raise ConfigError(
                f"{self.experts} experts on {members} members: some would have none; give fewer members"
            )
        if 0 < self.most_nodes < nodes and self.topk > self.most_nodes * (self.experts // nodes):
            raise ConfigError(
                f"topk {self.topk} on {self.most_nodes} of {nodes} nodes with {self.experts // nodes} "
                "experts each: there are too few; let a token go to more nodes, or to all with 0"
            )


def token_bytes(collective: str, routing: Routing) -> float:
    """Bytes per token: FP8 with scales for a dispatch, BF16 for a combine."""
    if collective == "dispatch":
        return routing.hidden * (1 + SCALES) + HEADER
    return 2.0 * routing.hidden


def reached(places: int, routing: Routing) -> float:
    """The expected number of `places`, equal parts of the experts, that a token reaches."""
    outside = routing.experts - routing.experts // places
    if outside < routing.topk:
        return float(places)
    miss = math.comb(outside, routing.topk) / math.comb(routing.experts, routing.topk)
    return places * (1 - miss)


def nodes_reached(nodes: int, routing: Routing) -> float:
    """The expected number of nodes that a token reaches, under the routing's limit.

    The nodes kept are those of the token's best experts. So a token that would reach fewer than the limit
    goes where it would go without one, and any other reaches as many as the limit.
    """
    most = min(routing.most_nodes or nodes, nodes)
    if most >= min(nodes, routing.topk):
        return reached(nodes, routing)
    return sum(min(n, most) * p for n, p in _chances(nodes, routing).items())


def _chances(nodes: int, routing: Routing) -> dict[int, float]:
    """The probability that a token's experts lie on exactly so many nodes, by inclusion and exclusion."""
    share, k = routing.experts // nodes, routing.topk
    ways = {
        n: math.comb(nodes, n)
        * sum((-1) ** i * math.comb(n, i) * math.comb((n - i) * share, k) for i in range(n))
        for n in range(1, min(nodes, k) + 1)
    }
    return {n: w / math.comb(nodes * share, k) for n, w in ways.items()}


def devices_reached(nodes: int, members: int, routing: Routing) -> float:
    """The expected number of devices that a token reaches, with any experts of the nodes it may go to."""
    most = min(routing.most_nodes or nodes, nodes)
    kept = routing._replace(experts=routing.experts * most // nodes)
    return reached(members * most // nodes, kept)


def places_reached(places: int, groups: int, routing: Routing) -> float:
    """The expected number of places that a token reaches, whose experts are of its best groups.

    `routing.most_nodes` groups are kept of `groups`, equal parts of the experts as places are. A place is a
    part of a group, a group, or some of them; where they lie across each other, the limit is left out, and
    what comes out is too much rather than too little.
    """
    if not 0 < routing.most_nodes < groups or (places % groups and groups % places):
        return reached(places, routing)
    if places > groups:
        return devices_reached(groups, places, routing)
    chances, each = _chances(groups, routing), groups // places
    total = 0.0
    for n, chance in chances.items():
        kept = min(n, routing.most_nodes)
        total += chance * places * (1 - math.comb(groups - each, kept) / math.comb(groups, kept))
    return total


class ExchangeTerms(NamedTuple):
    """What an exchange of experts takes by term, in seconds: it starts, and then the slowest part decides."""

    start: float
    network: float
    """Between nodes, at the share of a port that is reached."""
    links: float
    """Within a node."""
    copying: float
    """By the multiprocessors that send and receive."""
    filling: float = 0.0
    """Of the second longest part, what passes before a first chunk has come through and both run at once."""

    @property
    def seconds(self) -> float:
        """What it starts with, the filling, and the longest of the others."""
        return self.start + self.filling + max(self.network, self.links, self.copying)


def throughput_terms(
    constants: ExpertKernels, collective: str, routing: Routing, span: Span, multiprocessors: int
) -> ExchangeTerms:
    """A dispatch or combine in the kernels for training and prefill."""
    size, n = token_bytes(collective, routing), span.members
    nodes = nodes_reached(span.nodes, routing)
    devices = devices_reached(span.nodes, n, routing)
    away = nodes * (span.nodes - 1) / span.nodes
    inside = devices * (span.local - 1) / span.local
    network = 0.0
    if span.nodes > 1:
        crowd = 1 + constants.crowd * (span.nodes - 2)
        network = away * size / (constants.network_share * span.port) * crowd
    links = inside * size / (constants.share * span.link)
    rate = constants.multiprocessor_gbs if span.nodes > 1 else constants.local_multiprocessor_gbs
    copying = (1 + away + devices) * size / (multiprocessors * rate * GB)
    start = constants.start_us + constants.node_us * span.nodes
    local = within_node(constants.local_us * US, span)
    start = between_nodes(start, span) if span.nodes > 1 else local
    each, filling = routing.tokens, 0.0
    if span.nodes > 1:
        chunks = each * nodes / span.nodes * CHANNEL / multiprocessors / CHUNK
        filling = each * sorted((network, links, copying))[1] / max(1.0, chunks)
    return ExchangeTerms(start, each * network, each * links, each * copying, filling)


def latency_terms(
    constants: ExpertKernels, collective: str, routing: Routing, span: Span
) -> ExchangeTerms:
    """A dispatch or combine in the low-latency kernels for decoding."""
    size = routing.topk * token_bytes(collective, routing)
    away, near = (span.nodes - 1) / span.nodes, (span.local - 1) / span.members
    links = near * size / (constants.low_latency_share * span.link)
    network = away * size / (constants.low_latency_network_share * span.port) if away else 0.0
    start = constants.low_latency_us + constants.low_latency_hop_us * math.log2(span.nodes)
    local = within_node(constants.low_latency_local_us * US, span)
    start = between_nodes(start, span) if span.nodes > 1 else local
    return ExchangeTerms(start, routing.tokens * network, routing.tokens * links, 0.0)
