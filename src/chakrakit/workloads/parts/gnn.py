"""Graph neural networks: gather, aggregate and update over partitions of a graph, as a trace.

A graph is random, with degrees by a power law, in partitions of equal size. Every layer visits the
partitions in turn: it reads the features of the vertices that their edges come from, partition by partition,
sums them, multiplies by the layer's weights and writes the result. Features live in a store if one is named,
so that caches and page sizes decide what is read; else they are in the device's memory.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import ConfigError
from chakrakit.operators import element_bytes
from chakrakit.trace.model import NodeType, TraceBuilder
from chakrakit.trace.sets import Card, TraceSet

MOST_EDGES = 200_000_000
"""Of a graph: drawing them takes 16 bytes for each, several times."""


class GnnGraph(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A random graph; vertex v belongs to partition v · partitions // vertices.

    Ends of edges are drawn with probabilities that fall as rank^-skew (0: all alike), and `local` is the
    share of edges that a partitioner keeps in their partition; the others end in any partition, their own
    included.
    """

    vertices: int
    degree: float
    partitions: int = 1
    skew: float = 0.8
    local: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("vertices", "partitions"):
            if not isinstance(getattr(self, name), int):
                raise ConfigError(f"{name}={getattr(self, name)!r}; give a whole number")
        if self.vertices * self.degree > MOST_EDGES:
            raise ConfigError(
                f"{self.vertices * self.degree:.3g} edges would be drawn one by one; give a graph of at most "
                f"{MOST_EDGES:,}, and scale what comes out"
            )
        if not 1 <= self.partitions <= self.vertices or self.degree <= 0:
            raise ConfigError(
                f"a graph of {self.vertices:,} vertices of degree {self.degree:g} in {self.partitions:,} "
                "partitions; give at least one vertex to each, and a degree above 0"
            )
        if not (0 <= self.local <= 1 and self.skew >= 0):
            raise ConfigError(f"local={self.local}, skew={self.skew}; give 0 to 1, and 0 or more")

    @cached_property
    def edges(self) -> tuple[I64, I64]:
        """Where every edge comes from and goes to, by destination."""
        rng = np.random.default_rng([self.seed, 31])
        count = int(self.vertices * self.degree)
        dst = np.sort(rng.integers(0, self.vertices, count))
        order = rng.permutation(self.vertices)  # popular vertices lie anywhere
        src = order[self._ranks(rng, count)]
        near = rng.random(count) < self.local
        each = self.vertices / self.partitions
        inside = (self.partition(dst) * each + rng.random(count) * each).astype(np.int64)
        return np.where(near, np.minimum(inside, self.vertices - 1), src), dst

    def _ranks(self, rng: np.random.Generator, count: int) -> I64:
        """Numbers from 0, small ones more often, by the inverse of the power law's distribution."""
        u, power = rng.random(count), 1 - self.skew
        if abs(power) < 1e-9:
            ranks = np.exp(u * np.log(self.vertices)) - 1
        else:
            ranks = ((self.vertices**power - 1) * u + 1) ** (1 / power) - 1
        return np.asarray(np.minimum(ranks.astype(np.int64), self.vertices - 1), np.int64)

    def partition(self, vertices: I64) -> I64:
        """The partition of each vertex."""
        return np.asarray(vertices * self.partitions // self.vertices, np.int64)

    @cached_property
    def needs(self) -> list[dict[int, int]]:
        """For each partition, how many vertices of every partition its edges come from."""
        src, dst = self.edges
        pairs = np.unique(self.partition(dst) * self.vertices + src)
        to, source = pairs // self.vertices, self.partition(pairs % self.vertices)
        out: list[dict[int, int]] = [{} for _ in range(self.partitions)]
        keys, counts = np.unique(to * self.partitions + source, return_counts=True)
        for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
            out[key // self.partitions][key % self.partitions] = count
        return out

    @cached_property
    def edges_into(self) -> I64:
        """Edges into each partition."""
        return np.bincount(self.partition(self.edges[1]), minlength=self.partitions)


class GnnStep(msgspec.Struct, frozen=True, kw_only=True):
    """What is computed: features and hidden sizes, layers, forward alone or with a backward pass."""

    features: int = 128
    hidden: int = 128
    layers: int = 2
    dtype: str = "fp32"
    training: bool = True
    storage: str = ""
    """The store of features and results; "" for the device's memory."""
    whole: bool = False
    """Whether partitions are read whole and in order, instead of the vertices that are needed."""
    write: bool = True
    """Whether results of layers are written to the store; else they are computed again."""


def generate_gnn(graph: GnnGraph, step: GnnStep | None = None) -> TraceSet:
    """Generate a step of a graph neural network over all partitions of a graph, on one rank.

    Parameters
    ----------
    graph
        A random graph in partitions.
    step
        What is computed: sizes, layers, and where features live.

    Returns
    -------
    The traces of one rank.

    Examples
    --------
    >>> traces = ck.generate_gnn(ck.GnnGraph(vertices=1000, degree=8, partitions=4))
    >>> len(traces.trace(0))
    96

    """
    chosen = step or GnnStep()
    if min(chosen.features, chosen.hidden, chosen.layers) < 1:
        raise ConfigError("features, hidden and layers are 1 or more")
    writer = _Writer(graph, chosen)
    for layer in range(chosen.layers):
        writer.layer(layer, "forward")
    for layer in reversed(range(chosen.layers if chosen.training else 0)):
        writer.layer(layer, "backward")
    name = f"gnn-{graph.vertices}x{graph.degree:g}"
    settings = {"graph": msgspec.to_builtins(graph), "step": msgspec.to_builtins(chosen)}
    return TraceSet.of(writer.t).with_card(
        Card(name=name, kind="traces", tool="chakra generate", settings=settings)
    )


class _Writer:
    """Writes the nodes of layers."""

    def __init__(self, graph: GnnGraph, step: GnnStep) -> None:
        self.graph, self.step, self.t = graph, step, TraceBuilder()
        self.last: list[int] = []
        self.rows = graph.vertices / graph.partitions
        self.width = int(element_bytes(step.dtype))

    def layer(self, layer: int, phase: str) -> None:
        """All partitions of one layer; a layer begins when the one before has ended."""
        before, ends = self.last, []
        for part, needs in enumerate(self.graph.needs):
            gathered = self._gather(layer, part, needs, phase, before)
            ends += self._update(layer, part, phase, gathered)
        self.last = ends

    def _gather(
        self, layer: int, part: int, needs: dict[int, int], phase: str, before: list[int]
    ) -> list[int]:
        """Reads what one partition needs of every other: a tensor of its own unless partitions are whole."""
        size = self._features(layer) * self.width
        reads = dict.fromkeys(range(self.graph.partitions), self.rows) if self.step.whole else needs
        return [
            self._memory(self._tensor(layer, source, part), size * count, count, phase, before)
            for source, count in reads.items()
        ]

    def _update(self, layer: int, part: int, phase: str, gathered: list[int]) -> list[int]:
        edges, inner = int(self.graph.edges_into[part]), self._features(layer)
        outer, more = self.step.hidden, 2 if phase == "backward" else 1  # two products backward
        common: dict[str, Any] = {"dtype": self.step.dtype, "phase": phase, "layer": layer}
        summed = self.t.comp(
            f"layers.{layer}.aggregate",
            num_ops=edges * inner,
            tensor_size=int((edges + self.rows) * inner * self.width),
            op_type="vector",
            deps=gathered,
            **common,
        )
        updated = self.t.comp(
            f"layers.{layer}.update",
            num_ops=int(2 * more * self.rows * inner * outer),
            tensor_size=int(more * self.rows * (inner + outer) * self.width),
            op_type="matmul",
            deps=[summed],
            **common,
        )
        if not (self.step.storage and self.step.write and phase == "forward"):
            return [updated]
        size = self.rows * outer * self.width
        name = self._tensor(layer + 1, part, part)
        return [self._memory(name, size, self.rows, phase, [updated], True)]

    def _tensor(self, layer: int, source: int, reader: int) -> str:
        """Results of a layer in a partition, as a whole or as one reader needs them."""
        whole = f"p{source}/h{layer}"
        return whole if self.step.whole else f"{whole}/{reader}"

    def _features(self, layer: int) -> int:
        return self.step.features if layer == 0 else self.step.hidden

    def _memory(
        self,
        tensor: str,
        size: float,
        vertices: float,
        phase: str,
        deps: list[int],
        writes: bool = False,
    ) -> int:
        kind = NodeType.MEM_STORE_NODE if writes else NodeType.MEM_LOAD_NODE
        stored: dict[str, Any] = {"storage": self.step.storage} if self.step.storage else {}
        pieces = 1 if writes or self.step.whole else max(1, int(vertices))
        return self.t.node(
            "write" if writes else "gather",
            kind,
            tensor=tensor,
            tensor_size=max(1, int(size)),
            pieces=pieces,
            phase=phase,
            deps=deps,
            **stored,
        )
