"""The programs of a workload: one body per distinct program, and every rank's binding to its body."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from chakrakit.arrays import I64
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import Card, TraceSet
from chakrakit.workloads.description import Decoder, Mesh, Workload, check
from chakrakit.workloads.program import (
    MeshBindings,
    StageProgram,
    WorkloadLayout,
    header,
    stage_program,
    trace_of,
    variants,
    varied,
)

VERSION = "chakrakit.workloads.1"


@dataclass(frozen=True, eq=False)
class RankClass:
    """Ranks that run the same program."""

    name: str
    ranks: I64
    program: StageProgram
    roles: tuple[str, ...]
    peers: tuple[str, ...]
    layout: WorkloadLayout
    mesh: Mesh


class Generated:
    """The programs of a workload, before they become traces. Made once, read by the dry run too."""

    def __init__(self, workload: Workload) -> None:
        check(workload)
        self.workload = workload
        self.layout = WorkloadLayout(workload)

    @property
    def mesh(self) -> Mesh:
        """The ranks."""
        return self.layout.mesh

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self.mesh.size

    @property
    def passes(self) -> int:
        """Passes of the model each replica makes: micro-batches, or iterations."""
        return self.layout.micro_batches

    @property
    def tokens(self) -> int:
        """Tokens of the step over all ranks; samples, for models that have none."""
        model, step = self.workload.model, self.workload.step
        if isinstance(model, Decoder):
            return step.global_batch * step.seq
        return step.global_batch * getattr(model, "tokens", 1)

    @cached_property
    def classes(self) -> list[RankClass]:
        """One for each distinct program, in the order of their lowest ranks."""
        classes = []
        for stage in range(self.workload.plan.pp):
            program = stage_program(self.layout, stage)
            for variant in variants(self.layout, stage):
                program_of_variant = varied(self.layout, program, variant)
                classes.append(
                    rank_class(
                        variant.name, variant.ranks, program_of_variant, self.layout, self.mesh
                    )
                )
        return sorted(classes, key=lambda c: int(c.ranks[0]))

    def traces(self) -> TraceSet:
        """All ranks' traces."""
        groups: dict[str, list[int]] = {}
        bindings: dict[int, Binding] = {}
        numbering: dict[int, MeshBindings] = {}
        for number, rank_class in enumerate(self.classes):
            if id(rank_class.mesh) not in numbering:
                ranks = MeshBindings(rank_class.mesh, self._roles(rank_class.mesh), len(groups) + 1)
                numbering[id(rank_class.mesh)] = ranks
                groups |= ranks.groups
            bindings |= numbering[id(rank_class.mesh)].bind(
                rank_class.ranks, number, rank_class.roles, rank_class.peers
            )
        bodies = [self._body(rank_class) for rank_class in self.classes]
        return TraceSet(bodies, bindings, Groups(groups), self.card())

    def _roles(self, mesh: Mesh) -> list[str]:
        used = {r for c in self.classes if c.mesh is mesh for r in c.roles}
        return [r for r in self.layout.book.roles.texts if r in used]

    def _body(self, rank_class: RankClass) -> Trace:
        first = rank_class.ranks[:1]
        peers = {p: int(rank_class.mesh.peers(first, p)[0]) for p in rank_class.peers}
        rank = int(first[0]) + rank_class.mesh.first
        attributes = header(rank_class.layout, rank_class.program)
        trains = self.workload.step.kind == "train"
        book = self.layout.book
        return trace_of(rank_class.program, book, peers, rank, VERSION, attributes, one_step=trains)

    def card(self) -> Card:
        """What it was made from."""
        settings: dict[str, Any] = msgspec.to_builtins(self.workload)
        return Card(name=self.workload.name, tool="chakra generate", settings=settings)


def rank_class(
    name: str, ranks: I64, program: StageProgram, layout: WorkloadLayout, mesh: Mesh
) -> RankClass:
    """Ranks that run a program, with the groups and peers it names."""
    used = [layout.book.roles.texts[r] for r in np.unique(program.columns["role"])]
    peers = tuple(r for r in used if r.startswith(("pp:", "cp_", "rank:")))
    roles = tuple(r for r in used if r and r not in peers)
    return RankClass(name, ranks, program, roles, peers, layout, mesh)
