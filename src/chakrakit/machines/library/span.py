"""How a group lies on a machine, as far as a communication library cares."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """`members` devices on `nodes` nodes, `local` of them on the fullest one."""

    members: int
    nodes: int
    local: int
    link: float
    """Bytes/s of one device to the others of its node."""
    leaving: float
    """Bytes/s that the group's devices of one node can send to other nodes together; 0 on one node."""
    reduces: bool = False
    """Whether the switch of each node can reduce for the group."""
    port: float = 0.0
    """Bytes/s of one device to other nodes."""


def rounds(collective: str) -> int:
    """How often a ring carries every piece around: twice where it reduces and then gathers."""
    return 2 if collective == "all-reduce" else 1


def steps(collective: str, members: int) -> int:
    """Hops one after another around a ring."""
    return rounds(collective) * (members - 1)


def bus_factor(collective: str, members: int) -> float:
    """Bus bandwidth over algorithm bandwidth, as nccl-tests define it."""
    n = members
    if collective == "all-reduce":
        return 2 * (n - 1) / n
    return 1.0 if collective in ("broadcast", "reduce", "message") else (n - 1) / n
