"""What a file with `attention`, `spatial` or `gnn` describes, and its traces."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, get_type_hints

import msgspec

from chakrakit.configuration import Document, with_choices
from chakrakit.errors import ConfigError, nearest
from chakrakit.trace.sets import GENERATED, Card, TraceSet
from chakrakit.workloads.blocks import AttentionWork, generate_attention
from chakrakit.workloads.parts.gnn import GnnGraph, GnnStep, generate_gnn
from chakrakit.workloads.spatial import SpatialPlan, generate_spatial, network_named

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class AttentionPart:
    """Attention over packed documents: their tokens, and how ranks share them."""

    documents: list[int]
    ranks: int
    assignment: str = "flops"
    block: int = 1024
    work: AttentionWork = field(default_factory=AttentionWork)

    def traces(self) -> TraceSet:
        """One layer on all ranks."""
        return generate_attention(
            self.documents, self.ranks, self.assignment, self.block, self.work
        )


@dataclass(frozen=True)
class SpatialPart:
    """A network on a grid, and how it is cut."""

    network: str
    image: int = 0
    plan: SpatialPlan = field(default_factory=SpatialPlan)

    @property
    def parameters(self) -> int:
        """Of the whole network."""
        return network_named(self.network, self.image).parameters

    def traces(self) -> TraceSet:
        """The network on all ranks."""
        return generate_spatial(network_named(self.network, self.image), self.plan)


@dataclass(frozen=True)
class GnnPart:
    """A graph neural network."""

    graph: GnnGraph
    step: GnnStep = field(default_factory=GnnStep)

    def traces(self) -> TraceSet:
        """The step on its rank."""
        return generate_gnn(self.graph, self.step)


KINDS: dict[str, Callable[..., Any]] = {
    "attention": AttentionPart,
    "spatial": SpatialPart,
    "gnn": GnnPart,
}


class WorkloadPart:
    """A part that a file describes. Its traces are made once."""

    def __init__(self, name: str, content: Mapping[str, Any], where: str) -> None:
        self.name, self.workload, self.where = name, dict(content), where
        self.described = _described(KINDS[name], content, f"{where}.{name}")

    @cached_property
    def _traces(self) -> TraceSet:
        card = Card(name=self.name, tool=GENERATED, settings={self.name: self.workload})
        traces: TraceSet = self.described.traces()
        return traces.with_card(card)

    def traces(self) -> TraceSet:
        """All ranks' traces."""
        return self._traces


def part_of(document: Document) -> WorkloadPart | None:
    """The part that a description holds; None where it is another kind of description."""
    names = [name for name in KINDS if name in document.content]
    if not names:
        return None
    others = [key for key in document.content if key != names[0]]
    if others:
        raise ConfigError(
            f"{document.path}: {names[0]} stands alone in its file, and there is {others[0]} too"
        )
    content = document.content[names[0]]
    if not isinstance(content, dict):
        raise ConfigError(f"{document.path}: {names[0]} should hold its fields")
    try:
        return WorkloadPart(names[0], content, document.path)
    except ConfigError as error:
        raise document.pointed(str(error)) from None


def _described(kind: Callable[..., Kind], content: Mapping[str, Any], where: str) -> Kind:
    """A dataclass from plain values; a field that it does not have is named."""
    _known(kind, content, where)
    try:
        described: Kind = msgspec.convert(content, kind)
        return described
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {with_choices(str(error), kind)}") from None


def _known(kind: Any, content: Mapping[str, Any], where: str) -> None:
    hints = get_type_hints(kind)
    fields = (
        [f.name for f in dataclasses.fields(kind)]
        if dataclasses.is_dataclass(kind)
        else _struct(kind)
    )
    for name, value in content.items():
        if name not in fields:
            raise ConfigError(f"{where}: there is no field {name!r}; {nearest(name, fields)}")
        nested = dataclasses.is_dataclass(hints[name]) or hasattr(hints[name], "__struct_fields__")
        if nested and isinstance(value, Mapping):
            _known(hints[name], value, f"{where}.{name}")


def _struct(kind: Any) -> list[str]:
    return [f.name for f in msgspec.structs.fields(kind)]
