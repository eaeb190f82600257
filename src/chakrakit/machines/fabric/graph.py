"""A fabric of any shape: shortest paths found by search, ECMP's hash among equals."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import ConfigError
from chakrakit.machines.fabric.links import Links, Routes, mix


@dataclass(eq=False)
class AnyGraph:
    """Ports are vertices 0 … ports-1; every other vertex only forwards.

    Distances count hops. At each hop the link is the hash's choice among those that lead on a shortest
    path, in the order of their numbers.
    """

    ports: int
    vertices: int
    links: Links
    shape: str = "graph"
    names: tuple[str, ...] = ()
    _distance: dict[int, list[int]] = field(default_factory=dict)

    @cached_property
    def _out(self) -> list[list[int]]:
        out: list[list[int]] = [[] for _ in range(self.vertices)]
        for link, src in enumerate(self.links.src.tolist()):
            out[src].append(link)
        return out

    @cached_property
    def _into(self) -> list[list[int]]:
        into: list[list[int]] = [[] for _ in range(self.vertices)]
        for link, dst in enumerate(self.links.dst.tolist()):
            into[dst].append(link)
        return into

    def _hops_to(self, target: int) -> list[int]:
        """Hops from every vertex to the target; -1 where there is no path."""
        if target not in self._distance:
            distance, sources = [-1] * self.vertices, self.links.src.tolist()
            distance[target] = 0
            queue = deque([target])
            while queue:
                vertex = queue.popleft()
                for link in self._into[vertex]:
                    if distance[sources[link]] < 0:
                        distance[sources[link]] = distance[vertex] + 1
                        queue.append(sources[link])
            self._distance[target] = distance
        return self._distance[target]

    def routes(self, a: I64, b: I64) -> Routes:
        """The links from a[i] to b[i], by one search per destination and one walk per pair."""
        paths = [self._walk(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        offsets = np.r_[0, np.cumsum([len(f) for f in paths])].astype(np.int64)
        return Routes(offsets, np.array([link for f in paths for link in f], np.int64))

    def _walk(self, src: int, dst: int) -> list[int]:
        distance = self._hops_to(dst)
        if distance[src] < 0:
            raise ConfigError(f"no way from {self.name_of(src)} to {self.name_of(dst)}; add links")
        path: list[int] = []
        at = src
        while at != dst:
            ways = [
                w for w in self._out[at] if distance[int(self.links.dst[w])] == distance[at] - 1
            ]
            link = ways[int(mix(src, dst, len(path))[0] % np.uint64(len(ways)))]
            path.append(link)
            at = int(self.links.dst[link])
        return path

    def name_of(self, vertex: int) -> str:
        """The name of a vertex in the description."""
        return self.names[vertex] if self.names else f"vertex {vertex}"
