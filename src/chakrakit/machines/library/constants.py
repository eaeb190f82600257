"""The constants of a collective communication library on one kind of machine.

They are few and physical: what a launch costs, what one hop of a protocol costs, and the share of a link's
bandwidth that a protocol reaches. As rates are shares of the link's own bandwidth, a machine with faster
links and the same library needs no new constants. `chakra calibrate` fits them; presets carry fitted ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from chakrakit.configuration import NotNegative, Positive
from chakrakit.trace.timing import HORIZON_PS


@dataclass(frozen=True)
class Span:
    """How a group lies on a machine: `members` devices on `nodes` nodes, at most `local` on one node."""

    members: int
    nodes: int
    local: int
    link: float
    """Bytes/s of one device to the others of its node."""
    leaving: float
    """Bytes/s that the group's devices of one node together can send to other nodes; 0 on one node."""
    reduces: bool = False
    """Whether the switch of each node can reduce for the group."""
    port: float = 0.0
    """Bytes/s of one device to all other nodes, while every device of the group sends to all of them."""
    farther: float = 0.0
    """Seconds by which a way between nodes is longer than on the network that the constants are of."""
    farther_inside: float = 0.0
    """The same of a way between devices of a node."""


def rounds(collective: str) -> int:
    """How often a ring passes every piece around: twice for an all-reduce, which reduces and gathers."""
    return 2 if collective == "all-reduce" else 1


def steps(collective: str, members: int) -> int:
    """The number of consecutive hops around a ring."""
    return rounds(collective) * (members - 1)


def bus_factor(collective: str, members: int) -> float:
    """Bus bandwidth over algorithm bandwidth, as nccl-tests define it."""
    n = members
    if collective == "all-reduce":
        return 2 * (n - 1) / n
    return 1.0 if collective in ("broadcast", "reduce", "message") else (n - 1) / n


ProtocolName = Literal["LL", "LL128", "Simple"]
Time = Annotated[float, msgspec.Meta(ge=0, le=HORIZON_PS / 1e6)]
Factor = NotNegative
PROTOCOLS: tuple[ProtocolName, ...] = ("LL", "LL128", "Simple")
"""Low latency (a flag beside every 4 bytes), low latency in lines of 128 bytes, and copies with separate
flags."""


class Protocol(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """How one protocol moves a piece from one member to the next."""

    start_us: Time = 0.0
    """Time on top of the launch, for setting up and draining the pipeline."""
    hop_us: Time
    """From a member's write to the next member's read of it."""
    share: Positive
    """Share of the link's bandwidth that the protocol reaches."""
    copy: Factor = 0.0
    """Time to copy a member's own piece between its buffers, in units of sending that piece."""
    busy: Factor = 0.0
    """By how much a hop grows once the pieces fill the channels' slots, as a share of the hop."""
    fill: Factor = 0.0
    """Additional time, as a share of the transfer's, while the pipeline of chunks fills."""
    in_flight: Factor = 0.0
    """Bytes of the collective after which the pipeline is full."""


class InSwitch(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Reduction in the switch of a node."""

    start_us: Time
    share: Positive
    """Bytes of the result per second, as a share of one device's link."""
    least: int = 8
    """Members in a node from which the library uses it."""


class ExchangeConstants(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """All-to-all, gather, scatter and messages: sends and receives grouped in one kernel."""

    start_us: Time
    peer_us: Time
    """For each peer beyond the first."""
    low_latency_gbs: Positive
    """GB/s to one peer in the low-latency protocol."""
    simple_us: Time
    """Start of the Simple protocol, which is used from the size at which it is no slower."""
    flow_us: Time
    """Start of the line that large sizes follow."""
    share: Positive
    copy: Factor = 0.0
    fill: Factor = 0.0
    in_flight: Factor = 0.0


class Bridge(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What lies between the halves of a node without direct paths between all devices: sockets, bridges.

    Groups that fit on one side never cross it.
    """

    members: int
    """Devices on one side."""
    share: Positive
    """Of the link's bandwidth, along a ring that crosses it."""
    exchange_share: Positive
    """Of the link's bandwidth, where all members send to all at once."""
    hop_us: Time = 0.0
    """Added to each crossing: a ring crosses twice in each round."""


class NetworkConstants(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The constants that differ between nodes."""

    share: Positive = 0.92
    hop_us: dict[ProtocolName, Time] = msgspec.field(
        default_factory=lambda: {"LL": 2.7, "LL128": 4.0, "Simple": 14.0}
    )
    tree_hop_us: dict[ProtocolName, Time] = msgspec.field(
        default_factory=lambda: {"LL": 5.0, "LL128": 8.5, "Simple": 14.0}
    )
    latency_us: Time = 2.7
    """What the way itself takes of each of these hops. A hop of LL is nothing else in NCCL's tuner; on a
    network with other latencies all hops take as much more, or less."""


class Tuner(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The figures of the machine that the library itself uses when it chooses an algorithm."""

    bus_gbs: Positive
    """Bus bandwidth of its rings within a node."""
    low_latency_gbs: Positive
    """The most it expects of the LL protocol within a node."""
    low_latency_across_gbs: tuple[Positive, Positive] = (39.0, 20.4)
    """The same between two nodes, and between more, which NCCL takes from the hosts: by default Intel's."""
    link: Literal["nvlink", "pcie"] = "nvlink"


class EngineKernels(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The all-reduce kernels of serving engines, which read their peers' memory directly."""

    start_us: Time
    """Launched from a recorded graph."""
    eager_us: Time
    """Launched from Python each time."""
    peer_us: Time
    """For each peer, in each phase."""
    barrier_us: Time
    """Between the phases of the two-shot kernel."""
    share: Positive
    most: int
    """Bytes up to which the engine uses its own kernels; above, it calls the library."""
    one_shot: dict[int, int] = msgspec.field(default_factory=lambda: {4: 512 << 10, 8: 256 << 10})
    """By members, the most bytes for the one-shot kernel; it alone is used by two members."""
    two_shot: bool = True
    """Whether larger sizes have a kernel of two phases; else the engine calls the library for them."""


class ExpertKernels(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Dispatch or combine of mixtures of experts as in DeepEP, see `engines.py`."""

    local_us: Time
    """Start within a node."""
    start_us: Time
    """Start between nodes: exchanging sizes first."""
    node_us: Time
    """For each node, where there are several."""
    share: Positive
    """Of the links within a node."""
    network_share: Positive
    """Of a device's port to other nodes."""
    crowd: Factor = 0.0
    """What each node beyond two adds to the time on the network, as a share."""
    fitted_nodes: tuple[int, ...] = ()
    """Numbers of nodes that the constants were fitted on; for other numbers they are predictions."""
    local_multiprocessor_gbs: Positive
    """GB/s that one multiprocessor copies within a node."""
    multiprocessor_gbs: Positive
    """The same with forwarding between nodes."""
    low_latency_local_us: Time
    """Start of the low-latency kernels within a node."""
    low_latency_us: Time
    """The same between nodes."""
    low_latency_hop_us: Time
    """Added for each doubling of the nodes."""
    low_latency_share: Positive
    low_latency_network_share: Positive


class Library(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """All constants of a communication library on one kind of machine."""

    name: str = ""
    launch_us: Time
    latency_us: Time | None = None
    """What the way between two devices of a node takes of each hop; None: as long as the machine's takes."""
    fitted_members: Annotated[int, msgspec.Meta(ge=2)] | None = None
    """The members of the largest group that the constants were fitted on; None: they hold for all."""
    ll: Protocol
    ll128: Protocol | None = None
    """None where the links do not keep 128 bytes together, as over PCIe."""
    simple: Protocol
    exchange: ExchangeConstants
    tuner: Tuner
    in_switch: InSwitch | None = None
    bridge: Bridge | None = None
    """None where every device of a node reaches every other directly."""
    network: NetworkConstants = msgspec.field(default_factory=NetworkConstants)
    engine: EngineKernels | None = None
    dispatch: ExpertKernels | None = None
    combine: ExpertKernels | None = None

    def protocol(self, name: ProtocolName) -> Protocol | None:
        """The constants of a protocol, or None where the library cannot use it here."""
        return {"LL": self.ll, "LL128": self.ll128, "Simple": self.simple}[name]
