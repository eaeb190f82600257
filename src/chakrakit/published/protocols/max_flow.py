"""The most that can flow from a source to a sink (Dinic's algorithm): what schedulers are held against."""

from __future__ import annotations

from collections.abc import Sequence

Edge = tuple[int, int, float]
"""From, to, and how much it carries."""
_NOTHING = 1e-9
"""Less than this is rounding, in units of what flows (chunks)."""


class FlowNetwork:
    """Edges with what is left of them; an edge and its reverse are neighbours in the lists."""

    def __init__(self, vertices: int, edges: Sequence[Edge]) -> None:
        self.to: list[int] = []
        self.left: list[float] = []
        self.out: list[list[int]] = [[] for _ in range(vertices)]
        for a, b, most in edges:
            for end, start, room in ((b, a, most), (a, b, 0.0)):
                self.out[start].append(len(self.to))
                self.to.append(end)
                self.left.append(room)

    def flow(self, source: int, sink: int) -> float:
        """The most that flows; what is left of the edges is used up."""
        total = 0.0
        while (levels := self._levels(source))[sink] >= 0:
            tried = [0] * len(self.out)
            while (pushed := self._push(source, sink, levels, tried)) > _NOTHING:
                total += pushed
        return total

    def _levels(self, source: int) -> list[int]:
        levels = [-1] * len(self.out)
        levels[source], front = 0, [source]
        while front:
            after = []
            for v in front:
                for e in self.out[v]:
                    if self.left[e] > _NOTHING and levels[self.to[e]] < 0:
                        levels[self.to[e]] = levels[v] + 1
                        after.append(self.to[e])
            front = after
        return levels

    def _push(self, source: int, sink: int, levels: list[int], tried: list[int]) -> float:
        """One path of the levels, as much as it carries; 0 where there is none."""
        path: list[int] = []
        v = source
        while v != sink:
            if tried[v] < len(self.out[v]):
                e = self.out[v][tried[v]]
                if self.left[e] > _NOTHING and levels[self.to[e]] == levels[v] + 1:
                    path.append(e)
                    v = self.to[e]
                else:
                    tried[v] += 1
            elif path:
                v = self.to[path.pop() ^ 1]
                tried[v] += 1
            else:
                return 0.0
        least = min(self.left[e] for e in path)
        for e in path:
            self.left[e] -= least
            self.left[e ^ 1] += least
        return least
