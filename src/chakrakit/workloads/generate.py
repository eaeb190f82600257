"""Workload → TraceSet: one body for each distinct program, every rank bound to its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from chakrakit.trace.card import Card
from chakrakit.trace.groups import Groups
from chakrakit.trace.trace import Trace
from chakrakit.trace.traceset import Binding, TraceSet
from chakrakit.workloads.check import check
from chakrakit.workloads.description import Workload
from chakrakit.workloads.layout import Layout
from chakrakit.workloads.mesh import Mesh
from chakrakit.workloads.program import Program, stage_program
from chakrakit.workloads.tables import Ints
from chakrakit.workloads.traces import Ranks, trace_of
from chakrakit.workloads.variation import Variant, variants, varied

VERSION = "chakrakit.workloads.1"


@dataclass(frozen=True, eq=False)
class RankClass:
    """Ranks that run the same program."""

    name: str
    ranks: Ints
    program: Program
    roles: tuple[str, ...]
    peers: tuple[str, ...]


class Generated:
    """The programs of a workload, before they become traces. Made once, read by the dry run too."""

    def __init__(self, workload: Workload) -> None:
        check(workload)
        self.workload = workload
        self.layout = Layout(workload)

    @property
    def mesh(self) -> Mesh:
        """The ranks."""
        return self.layout.mesh

    @cached_property
    def classes(self) -> list[RankClass]:
        """One for each distinct program, in the order of their lowest ranks."""
        found = []
        for stage in range(self.workload.plan.pp):
            program = stage_program(self.layout, stage)
            for variant in variants(self.layout, stage):
                found.append(self._class(varied(self.layout, program, variant), variant))
        return sorted(found, key=lambda c: int(c.ranks[0]))

    def _class(self, program: Program, variant: Variant) -> RankClass:
        book = self.layout.book
        used = [book.roles.texts[r] for r in np.unique(program.columns["role"])]
        peers = tuple(r for r in used if r.startswith(("pp:", "cp_")))
        roles = tuple(r for r in used if r and r not in peers)
        return RankClass(variant.name, variant.ranks, program, roles, peers)

    def traces(self) -> TraceSet:
        """All ranks' traces."""
        used = [r for r in self.layout.book.roles.texts if any(r in c.roles for c in self.classes)]
        ranks = Ranks(self.mesh, used)
        bindings: dict[int, Binding] = {}
        for number, one in enumerate(self.classes):
            bindings |= ranks.bind(one.ranks, number, one.roles, one.peers)
        bodies = [self._body(one) for one in self.classes]
        return TraceSet(bodies, bindings, Groups(ranks.groups), self.card())

    def _body(self, one: RankClass) -> Trace:
        first = one.ranks[:1]
        peers = {p: int(self.mesh.peers(first, p)[0]) for p in one.peers}
        rank = int(first[0]) + self.mesh.first
        return trace_of(one.program, self.layout.book, peers, rank, VERSION)

    def card(self) -> Card:
        """What it was made from."""
        settings: dict[str, Any] = msgspec.to_builtins(self.workload)
        return Card(name=self.workload.name, tool="chakra generate", settings=settings)


def generated(workload: Workload) -> Generated:
    """The programs of a workload; a ConfigError says why it cannot be."""
    return Generated(workload)


def generate(workload: Workload) -> TraceSet:
    """The traces of a workload on all its ranks."""
    return generated(workload).traces()
