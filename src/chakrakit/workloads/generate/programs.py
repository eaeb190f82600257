"""The programs of a workload: one body per distinct program, and every rank's binding to its body."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from chakrakit.arrays import I64
from chakrakit.errors import ConfigError
from chakrakit.trace.communication import Binding, Groups
from chakrakit.trace.model import Trace
from chakrakit.trace.sets import GENERATED, Card, TraceSet
from chakrakit.workloads.description import Decoder, Mesh, Workload, check
from chakrakit.workloads.program import (
    MeshBindings,
    Shape,
    StageProgram,
    WorkloadLayout,
    header,
    shape_of,
    stage_program,
    trace_of,
    variants,
    varied,
)
from chakrakit.workloads.samples import Deal, deal, tokens_of_unit

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
        self.layout = WorkloadLayout(workload, steps=workload.step.steps or 1)
        if workload.step.steps == 0 and self.dealt:
            self.layout.steps = self.dealt.steps

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
        """Tokens of all steps over all ranks, padding left out; samples, for models that have none."""
        model, step = self.workload.model, self.workload.step
        if self.dealt is not None:
            return sum(b.own for b in self.dealt.batches()) * tokens_of_unit(model)
        each = step.seq if isinstance(model, Decoder) else getattr(model, "tokens", 1)
        return int(step.global_batch * each * self.layout.steps)

    @cached_property
    def dealt(self) -> Deal | None:
        """The micro-batches of samples that every replica gets; None for sequences of one length."""
        return deal(self.workload) if self.workload.step.samples.batcher else None

    @cached_property
    def classes(self) -> list[RankClass]:
        """One for each distinct program, in the order of their lowest ranks."""
        classes = [
            c for layout, replicas in self._layouts() for c in self._classes(layout, replicas)
        ]
        check_aligned(classes)
        return sorted(classes, key=lambda c: int(c.ranks[0]))

    def _layouts(self) -> Iterator[tuple[WorkloadLayout, list[int]]]:
        """A layout for every distinct sequence of micro-batches, with the replicas that run it."""
        if self.dealt is None:
            yield self.layout, []
            return
        alike: dict[tuple[Shape, ...], list[int]] = {}
        for replica in range(self.workload.plan.dp):
            alike.setdefault(self.shapes_of(replica), []).append(replica)
        for shapes, replicas in alike.items():
            quota = self.dealt.quota(replicas[0])
            yield replace(self.layout, quota=quota, shapes=shapes), replicas

    def shapes_of(self, replica: int) -> tuple[Shape, ...]:
        """What the micro-batches of a replica hold, step by step."""
        assert self.dealt is not None
        model, plan = self.workload.model, self.workload.plan
        return tuple(shape_of(b, plan, model) for step in self.dealt.of[replica] for b in step)

    def _classes(self, layout: WorkloadLayout, replicas: list[int]) -> Iterator[RankClass]:
        some = len(replicas) not in (0, self.workload.plan.dp)
        for stage in range(self.workload.plan.pp):
            program = stage_program(layout, stage)
            for variant in variants(layout, stage, replicas):
                name = f"{variant.name} replica {replicas[0]}" if some else variant.name
                program_of_variant = varied(layout, program, variant)
                yield rank_class(name, variant.ranks, program_of_variant, layout, self.mesh)

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
        counts = self.workload.step.in_micro_batches
        per_step = rank_class.layout.micro_batches if counts else None
        book = self.layout.book
        return trace_of(
            rank_class.program, book, peers, rank, VERSION, attributes, per_step=per_step
        )

    def card(self) -> Card:
        """What it was made from."""
        settings: dict[str, Any] = msgspec.to_builtins(self.workload)
        plain = self.dealt is None and self.layout.steps == 1
        counted = {} if plain else {"tokens": self.tokens, "steps": self.layout.steps}
        return Card(name=self.workload.name, tool=GENERATED, settings=settings, measured=counted)


def rank_class(
    name: str, ranks: I64, program: StageProgram, layout: WorkloadLayout, mesh: Mesh
) -> RankClass:
    """Ranks that run a program, with the groups and peers it names."""
    used = [layout.book.roles.texts[r] for r in np.unique(program.columns["role"])]
    peers = tuple(r for r in used if r.startswith(("pp:", "cp_", "rank:")))
    roles = tuple(r for r in used if r and r not in peers)
    return RankClass(name, ranks, program, roles, peers, layout, mesh)


def check_aligned(classes: Sequence[RankClass]) -> None:
    """Raises a ConfigError if ranks of one group make different numbers of collectives, which would hang."""
    calls_of: dict[tuple[int, str, int], tuple[int, str]] = {}
    for one in classes:
        columns, texts = one.program.columns, one.layout.book.roles.texts
        counts = np.bincount(columns["role"][columns["comm"] >= 0], minlength=len(texts))
        for number in np.flatnonzero(counts).tolist():
            role, count = texts[number], int(counts[number])
            for group in np.unique(one.mesh.group_of(role)[one.ranks]).tolist():
                known, name = calls_of.setdefault((id(one.mesh), role, group), (count, one.name))
                if known != count:
                    raise ConfigError(
                        f"ranks of one group {role} would make different numbers of collectives and hang: "
                        f"{name} {known:,}, {one.name} {count:,}; give every replica as many micro-batches "
                        "(quotas), or reduce gradients once per step (data ddp or zero1)"
                    )
