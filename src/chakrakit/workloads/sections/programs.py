"""A graph of sections as traces: ranks that do the same share a body."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from chakrakit.errors import ConfigError
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.memory import StatePart, state_attribute
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import GENERATED, Card, TraceSet
from chakrakit.workloads.description import SectionGraph
from chakrakit.workloads.generate import VERSION, RankClass
from chakrakit.workloads.program import (
    MeshBindings,
    StageProgram,
    TextTables,
    model_state,
    trace_of,
)
from chakrakit.workloads.sections.dealing import SectionDeal, deal_sections
from chakrakit.workloads.sections.feasible import check_sections, in_topological_order
from chakrakit.workloads.sections.handing_on import Handed, handed_on
from chakrakit.workloads.sections.joining import Joined, Joiner, peers_of
from chakrakit.workloads.sections.one import OneSection


@dataclass(frozen=True, eq=False)
class SharedBody:
    """Ranks that do the same, with the peers of each."""

    ranks: list[int]
    peers: list[tuple[int, ...]]
    joined: Joined
    program: StageProgram
    owners: list[str]
    """The section of each row."""


class SectionPrograms:
    """The programs of one step of a graph of sections, before they become traces."""

    def __init__(self, graph: SectionGraph, number: int | None = None) -> None:
        check_sections(graph)
        self.graph, self.number = graph, number
        self.book = TextTables()
        self.order = in_topological_order(graph)
        self.deals: dict[str, SectionDeal] = deal_sections(graph, number or 0)
        self.sections = dict(self._sections())

    @property
    def workload(self) -> SectionGraph:
        """What was generated."""
        return self.graph

    def _sections(self) -> Iterator[tuple[str, OneSection]]:
        """Sections with ranks of their own one after the other, the others on those that they share."""
        first: dict[str, int] = {}
        ranks = 0
        for name, section in self.graph.sections.items():
            if not section.ranks_of:
                first[name] = ranks
                ranks += section.plan.world
        for name, section in self.graph.sections.items():
            at = first[section.ranks_of or name]
            yield name, OneSection(self.graph, name, self.deals[name], self.book, at)

    @cached_property
    def size(self) -> int:
        """Number of ranks."""
        return sum(s.plan.world for s in self.graph.sections.values() if not s.ranks_of)

    @cached_property
    def handed(self) -> Handed:
        """What sections hand on."""
        return handed_on(self.sections)

    @cached_property
    def bodies(self) -> list[SharedBody]:
        """One for each distinct program, in the order of their lowest ranks."""
        alike: dict[tuple[object, ...], list[tuple[int, Joined]]] = {}
        for rank in range(self.size):
            joined = self._joined(rank)
            alike.setdefault(joined.signature, []).append((rank, joined))
        joiner = Joiner(self.order, self.book)
        bodies = []
        for members in alike.values():
            program, owners = joiner.program(members[0][1])
            ranks, peers = [r for r, _ in members], [j.peers for _, j in members]
            bodies.append(SharedBody(ranks, peers, members[0][1], program, owners))
        return bodies

    def _joined(self, rank: int) -> Joined:
        mine = [s for n in self.order if rank in (s := self.sections[n]).class_of]
        classes: list[RankClass] = [s.class_of[rank] for s in mine]
        messages = self.handed.messages.get(rank, [])
        named = tuple(peers_of(rank, mine, classes, messages))
        stays, gathered = self.handed.stays.get(rank, []), self.handed.gathered.get(rank, [])
        return Joined(tuple(mine), tuple(classes), messages, stays, gathered, named)

    def traces(self) -> TraceSet:
        """All ranks' traces; a ConfigError where several steps are wanted, each of which has its own."""
        if self.number is None and self.graph.step.steps > 1:
            raise ConfigError(
                f"a trace of sections holds one step, not {self.graph.step.steps}; write them one by "
                "one with --series (`made.series` in Python), or leave steps out"
            )
        numbering: dict[str, MeshBindings] = {}
        groups: dict[str, list[int]] = {}
        for name, section in self.sections.items():
            roles = sorted({r for c in section.classes for r in c.roles})
            roles += ["tp"] if "tp" not in roles and self._gathers(name) else []
            numbering[name] = MeshBindings(section.mesh, roles, len(groups) + 1)
            groups |= numbering[name].groups
        bindings: dict[int, Binding] = {}
        for number, body in enumerate(self.bodies):
            for rank, peers in zip(body.ranks, body.peers, strict=True):
                bindings[rank] = self._binding(number, body, rank, peers, numbering)
        traces = [self._trace(body) for body in self.bodies]
        return TraceSet(traces, dict(sorted(bindings.items())), Groups(groups), self.card())

    def _gathers(self, section: str) -> bool:
        return any(g.joint.section == section for row in self.handed.gathered.values() for g in row)

    def _binding(
        self,
        number: int,
        body: SharedBody,
        rank: int,
        peers: tuple[int, ...],
        numbering: dict[str, MeshBindings],
    ) -> Binding:
        own: dict[str, str] = {}
        for section in body.joined.sections:
            mesh, named = section.mesh, numbering[section.name].names
            for role, names in named.items():
                group = int(mesh.group_of(role)[rank - mesh.first])
                if group >= 0:
                    own[f"{section.name}.{role}"] = names[group]
        first = (body.ranks[0], *body.peers[0])
        mine = dict(zip(first, (rank, *peers), strict=True))
        return Binding(number, own, {} if rank == body.ranks[0] else mine)

    def _trace(self, body: SharedBody) -> Trace:
        rank, joined = body.ranks[0], body.joined
        peers = {f"peer:{i}": peer for i, peer in enumerate(body.peers[0])}
        for section, rank_class in zip(joined.sections, joined.classes, strict=True):
            local = np.array([rank - section.mesh.first])
            for role in rank_class.peers:
                peers[f"{section.name}.{role}"] = int(section.mesh.peers(local, role)[0])
        attributes = state_attribute(self.state(body))
        trace = trace_of(body.program, self.book, peers, rank, VERSION, attributes, per_step=1)
        return trace.with_columns({"section": pa.array(body.owners)})

    def state(self, body: SharedBody) -> list[StatePart]:
        """Parameters, gradients and optimizer state of all sections on a rank."""
        parts = []
        for section, rank_class in zip(body.joined.sections, body.joined.classes, strict=True):
            for part in model_state(rank_class.layout, rank_class.program.weights):
                role = f"{section.name}.{part.role}" if part.role else ""
                parts.append(msgspec.structs.replace(part, role=role))
        return parts

    @property
    def tokens(self) -> int:
        """Tokens of the sections that feed nobody."""
        last = [s for s in self.sections.values() if not s.feeds]
        return sum(s.tokens_of(n) for s in last for n in s.samples.lengths)

    def card(self) -> Card:
        """What it was made from."""
        settings: dict[str, Any] = msgspec.to_builtins(self.graph)
        measured = {"tokens": self.tokens, "steps": 1, "samples": self.graph.step.global_batch}
        return Card(name=self.graph.name, tool=GENERATED, settings=settings, measured=measured)
