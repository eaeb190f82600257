"""A fabric of any shape: shortest paths found by search, ECMP's hash among equals."""

from __future__ import annotations

from dataclasses import dataclass

import chakrakit.core as core
from chakrakit.machines.fabric.links import Links


@dataclass(frozen=True, eq=False)
class AnyGraph:
    """Ports are vertices 0 … ports-1; every other vertex only forwards.

    Distances count hops, and of equal ones the path counts whose narrowest link is the widest: two GPUs
    below one NVSwitch and one switch of a network use the NVSwitch. At each hop the link is the hash's
    choice among those that lead on such a path, in the order of their numbers.
    """

    ports: int
    vertices: int
    links: Links
    shape: str = "graph"
    names: tuple[str, ...] = ()

    def ways(self) -> core.SimFabric:
        """The fabric whose routes are shortest paths, found by one search per destination."""
        names = [self.name_of(vertex) for vertex in range(self.vertices)]
        links = self.links
        return core.sim_graph(self.vertices, links.src, links.dst, links.bandwidth, names)

    def name_of(self, vertex: int) -> str:
        """The name of a vertex in the description."""
        return self.names[vertex] if self.names else f"vertex {vertex}"
