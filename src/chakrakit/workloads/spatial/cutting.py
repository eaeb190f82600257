"""A network's forward pass (and backward) over ranks: by domain with halos, by channel, or by layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from chakrakit.errors import ConfigError
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.memory import StatePart, with_model_state
from chakrakit.trace.model import CollectiveType, Trace, TraceBuilder
from chakrakit.trace.sets import GENERATED, Card, TraceSet
from chakrakit.workloads.spatial.halo import Domains, Edge
from chakrakit.workloads.spatial.networks import network_named
from chakrakit.workloads.spatial.windows import Network, Sized

Split = Literal["domain", "channels", "layers"]


@dataclass(frozen=True)
class SpatialPlan:
    """How a network is cut: tiles of rows × columns (domain), or so many ranks (channels, layers)."""

    split: Split = "domain"
    rows: int = 1
    columns: int = 1
    batch: int = 1
    backward: bool = False
    dtype: str = "bf16"
    element: int = 2
    """Bytes of an element."""

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return self.rows * self.columns


def generate_spatial(network: Network | str, plan: SpatialPlan | None = None) -> TraceSet:
    """The traces of a network on a grid, forward and where asked backward, cut over ranks.

    By domain, every rank has a tile of the grid; before a layer whose windows reach over its border,
    neighbours exchange strips (halos), rows first and then columns with the corners. By channel, a rank makes
    a part of every layer's channels, and parts are gathered where the next layer sees all of them. By layer,
    ranks have a part of the layers each and hand results on.

    Parameters
    ----------
    network
        A `Network`, or the name of one: `vgg16`, `mobilenet-v2`, `grid-attention`, `convolutions`.
    plan
        How it is cut; by default one rank.

    Examples
    --------
    >>> traces = ck.generate_spatial("mobilenet-v2", ck.SpatialPlan(rows=2, columns=2))
    >>> len(traces)
    4

    """
    chosen = plan or SpatialPlan()
    described = network_named(network) if isinstance(network, str) else network
    _check(described, chosen)
    ranks = list(range(chosen.ranks))
    bodies = [SPLITS[chosen.split](described, chosen, rank) for rank in ranks]
    bindings = {rank: Binding(rank) for rank in ranks}
    return TraceSet(
        bodies, bindings, Groups({"": ranks}), Card(name=described.name, tool=GENERATED)
    )


def _check(network: Network, plan: SpatialPlan) -> None:
    for name in ("rows", "columns", "batch", "element"):
        if (number := getattr(plan, name)) < 1:
            raise ConfigError(f"{name} of a spatial plan is {number}; it should be 1 or more")
    if plan.backward and plan.split != "domain":
        raise ConfigError("backward is built for split domain; channels and layers are inference")
    if plan.split == "layers" and plan.ranks > len(network.layers):
        raise ConfigError(f"{plan.ranks} ranks for {len(network.layers)} layers; use fewer")
    smallest = min((min(s.rows, s.columns) for s in network.sized if s.halo), default=1 << 30)
    widest = max((s.halo for s in network.sized), default=0)
    if plan.split == "domain" and smallest // max(plan.rows, plan.columns) < max(1, widest):
        raise ConfigError(
            f"a tile of {network.name}'s smallest grid ({smallest}) would be narrower than a halo of "
            f"{widest}; use fewer rows and columns, or a larger image"
        )


# --- by domain ----------------------------------------------------------------------------------


class _Tile:
    """The rows of one rank that has a tile."""

    def __init__(self, network: Network, plan: SpatialPlan, rank: int) -> None:
        self.network, self.plan, self.rank = network, plan, rank
        self.domains = Domains(plan.rows, plan.columns)
        self.built = TraceBuilder()
        self.whole = False
        """Whether every rank has all of the grid, behind a layer that sees everything."""

    def trace(self) -> Trace:
        last: list[int] = []
        for number, layer in enumerate(self.network.sized):
            last = self._layer(number, layer, last, 1, "")
        for number in reversed(range(len(self.network.sized) if self.plan.backward else 0)):
            last = self._layer(number, self.network.sized[number], last, 2, ".dx")
        count = self.network.parameters
        if self.plan.backward and self.plan.ranks > 1:
            self._collective(
                "gradients", CollectiveType.ALL_REDUCE, count * self.plan.element, last
            )
        return _with_weights(self.built, count, self.plan.element)

    def _layer(
        self, number: int, layer: Sized, before: list[int], factor: int, suffix: str
    ) -> list[int]:
        if layer.layer.kind == "dense" or layer.layer.whole:
            return self._seeing_all(layer, before, factor, suffix)
        waits = self._exchange(number, layer, before, suffix)
        share = self._share(layer)
        return [self._compute(layer, share, factor, suffix, waits)]

    def _share(self, layer: Sized) -> float:
        height, width = self.domains.tile(self.rank, layer.out_rows, layer.out_columns)
        return height * width / max(1, layer.out_rows * layer.out_columns)

    def _seeing_all(self, layer: Sized, before: list[int], factor: int, suffix: str) -> list[int]:
        """The grid is gathered once; what comes after is done by every rank."""
        if not self.whole and self.plan.ranks > 1 and not suffix:
            size = layer.elements_in * self.plan.batch * self.plan.element // self.plan.ranks
            before = [
                self._collective(
                    f"{layer.layer.name}.grid", CollectiveType.ALL_GATHER, size, before
                )
            ]
            self.whole = True
        return [self._compute(layer, 1.0, factor, suffix, before)]

    def _exchange(self, number: int, layer: Sized, before: list[int], suffix: str) -> list[int]:
        """Halos of a layer: rows, and then columns with the corners that came with them."""
        if not layer.halo:
            return before
        for turn, edges in enumerate((self.domains.vertical, self.domains.horizontal)):
            arrived = []
            for edge in edges(self.rank, layer):
                arrived += self._strip(
                    edge, layer, 4 * number + 2 * turn + bool(suffix), before, suffix
                )
            before = [*before, *arrived]
        return before

    def _strip(
        self, edge: Edge, layer: Sized, tag: int, before: list[int], suffix: str
    ) -> list[int]:
        size = edge.rows * edge.columns * layer.channels * self.plan.batch * self.plan.element
        name = f"{layer.layer.name}{suffix}.halo"
        self.built.send(f"{name}.send", self.rank, edge.peer, size, tag=tag, deps=before)
        return [self.built.recv(f"{name}.recv", edge.peer, self.rank, size, tag=tag, deps=before)]

    def _compute(
        self, layer: Sized, share: float, factor: int, suffix: str, waits: list[int]
    ) -> int:
        number = self.network.sized.index(layer)
        part = _Part(share, share, 1.0, factor)
        return _compute(
            self.built,
            self.network,
            number,
            self.plan,
            part,
            waits,
            suffix=suffix,
            begins=not number,
        )

    def _collective(self, name: str, kind: CollectiveType, size: int, before: list[int]) -> int:
        return self.built.collective(name, kind, size, deps=before)


@dataclass(frozen=True)
class _Part:
    """The part of a layer that a rank does: of its results, of its input and of its parameters."""

    made: float = 1.0
    read: float = 1.0
    weights: float = 1.0
    factor: int = 1
    """Work against a forward pass: 2 on the way back."""


def _compute(
    built: TraceBuilder, network: Network, number: int, plan: SpatialPlan, part: _Part, waits: list[int],
    suffix: str = "", begins: bool = False,
) -> int:  # fmt: skip
    """One layer: its work, the bytes it moves, and what it holds; inputs that nobody needs now are freed.

    `begins`: its input was there before and belongs to nobody else on the rank.
    """
    layer, size = network.sized[number], plan.batch * plan.element
    taken, made = layer.elements_in * part.read, layer.elements_out * part.made
    freed = sum(network.sized[i].elements_in for i in network.done_with[number]) * part.read
    operations = max(layer.flops, layer.elements_in) * part.made * part.factor * plan.batch
    return built.comp(
        f"{layer.layer.name}{suffix}",
        num_ops=int(operations),
        tensor_size=int((taken + made) * size + layer.parameters * part.weights * plan.element),
        dtype=plan.dtype,
        op_type="matmul" if layer.flops else "vector",
        stream=0,
        mem_alloc=int((made + (taken if begins else 0)) * size),
        mem_free=int(freed * size) if not suffix else int(made * size),
        deps=waits,
    )


def _with_weights(built: TraceBuilder, parameters: float, element: int) -> Trace:
    return with_model_state(built.build(), [StatePart("parameters", int(parameters) * element)])


# --- by channel ---------------------------------------------------------------------------------


def _by_channel(network: Network, plan: SpatialPlan, rank: int) -> Trace:
    """A part of every layer's channels; parts are gathered where the next layer sees all channels."""
    built, ranks = TraceBuilder(), plan.ranks
    before: list[int] = []
    for number, layer in enumerate(network.sized):
        apart = layer.groups == layer.channels > 1 or layer.layer.kind == "pool"
        if ranks > 1 and number and not apart:
            size = layer.elements_in * plan.batch * plan.element // ranks
            kind = CollectiveType.ALL_GATHER
            whole = size * (ranks - 1)
            name = f"{layer.layer.name}.channels"
            before = [built.collective(name, kind, size, deps=before, mem_alloc=whole)]
        read = 1 / ranks if apart else 1.0
        part = _Part(1 / ranks, read, 1 / ranks)
        before = [_compute(built, network, number, plan, part, before, begins=not number)]
    return _with_weights(built, -(-network.parameters // ranks), plan.element)


# --- by layer -----------------------------------------------------------------------------------


def _by_layer(network: Network, plan: SpatialPlan, rank: int) -> Trace:
    """Layers in a row for each rank, with as much work as the others as far as layers allow."""
    built = TraceBuilder()
    bounds = _bounds(network, plan.ranks)
    low, high = bounds[rank], bounds[rank + 1]
    before: list[int] = []
    first, last = network.sized[low], network.sized[high - 1]
    if rank:
        size = first.elements_in * plan.batch * plan.element
        before = [built.recv("recv", rank - 1, rank, size)]
    for number in range(low, high):
        before = [_compute(built, network, number, plan, _Part(), before, begins=number == low)]
    if rank < plan.ranks - 1:
        size = last.elements_out * plan.batch * plan.element
        built.send("send", rank, rank + 1, size, deps=before)
    return _with_weights(built, sum(s.parameters for s in network.sized[low:high]), plan.element)


def _bounds(network: Network, ranks: int) -> list[int]:
    """Where each rank's layers begin: near its share of the work, and never within a residual connection."""
    work = [max(s.flops, s.elements_in) for s in network.sized]
    open_at = {i for n, s in enumerate(network.sized) for i in range(n - s.layer.adds + 2, n + 1)}
    places = [i for i in range(1, len(work)) if i not in open_at]
    if len(places) < ranks - 1:
        raise ConfigError(
            f"{network.name} can be cut in {len(places) + 1} parts by layer; use fewer ranks"
        )
    bounds, total = [0], sum(work)
    for rank in range(1, ranks):
        rest = [p for p in places if p > bounds[-1]]
        rest = rest[: len(rest) - (ranks - 1 - rank)]
        due = total * rank / ranks
        bounds.append(min(rest, key=lambda p: abs(sum(work[:p]) - due)))
    return [*bounds, len(work)]


SPLITS: dict[str, Callable[[Network, SpatialPlan, int], Trace]] = {
    "domain": lambda network, plan, rank: _Tile(network, plan, rank).trace(),
    "channels": _by_channel,
    "layers": _by_layer,
}
