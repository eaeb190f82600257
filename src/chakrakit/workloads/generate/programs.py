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
from chakrakit.workloads.description import EXCHANGES, Decoder, Mesh, Workload, check
from chakrakit.workloads.generate.shared_documents import SharedDocuments, drawn_shape
from chakrakit.workloads.program import (
    MeshBindings,
    RowShape,
    StageProgram,
    WorkloadLayout,
    header,
    shape_of,
    stage_program,
    trace_of,
    variants,
    varied,
)
from chakrakit.workloads.samples import Batcher, Deal, deal, tokens_of_unit

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

    def __init__(self, workload: Workload, batcher: Batcher | None = None) -> None:
        """A `batcher` of the user's, where the workload says so."""
        check(workload)
        self.workload, self.batcher = workload, batcher
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
        return deal(self.workload, self.batcher) if self.workload.step.samples.batcher else None

    @cached_property
    def classes(self) -> list[RankClass]:
        """One for each distinct program, in the order of their lowest ranks."""
        classes = [c for layout, lanes in self._layouts() for c in self._classes(layout, lanes)]
        check_aligned(classes)
        return sorted(classes, key=lambda c: int(c.ranks[0]))

    def nodes_ahead(self) -> list[tuple[int, int]] | None:
        """Nodes and ranks of each class before anything is made; None where micro-batches are not alike.

        Beyond a few for each piece of the pipeline, every micro-batch adds the same nodes: two short steps
        tell how many.
        """
        plan, step = self.workload.plan, self.workload.step
        few = 4 * plan.pp * max(1, plan.chunks)
        unlike = bool(step.samples.batcher) or plan.context == "blocks" or bool(plan.tasks)
        if unlike or not step.in_micro_batches or self.passes <= 2 * few:
            return None
        short, longer = (self._nodes_of(few), self._nodes_of(2 * few))
        return [
            (nodes + (more - nodes) * (self.passes - few) // few, ranks)
            for (nodes, ranks), (more, _) in zip(short, longer, strict=True)
        ]

    def _nodes_of(self, micro_batches: int) -> list[tuple[int, int]]:
        """Nodes and ranks of each class with fewer micro-batches."""
        plan, step = self.workload.plan, self.workload.step
        batch = micro_batches * plan.dp * step.micro_batch
        fewer = Generated(self.workload.replace(step=step.replace(global_batch=batch)))
        return [(len(c.program), len(c.ranks)) for c in fewer.classes]

    def _layouts(self) -> Iterator[tuple[WorkloadLayout, list[int]]]:
        """A layout for every distinct sequence of micro-batches, with the lanes (dp × cp) that run it."""
        plan = self.workload.plan
        in_blocks = plan.context == "blocks" and plan.cp > 1
        if self.dealt is None and not in_blocks:
            yield self.layout, []
            return
        alike: dict[tuple[RowShape, ...], list[int]] = {}
        for replica in range(plan.dp):
            shapes = self.shapes_of(replica)
            of_ranks = self.shared.parts(shapes) if in_blocks else [shapes] * plan.cp
            for place, part in enumerate(of_ranks):
                alike.setdefault(part, []).append(replica * plan.cp + place)
        for shapes, lanes in alike.items():
            quota = self.dealt.quota(lanes[0] // plan.cp) if self.dealt else None
            layout = replace(self.layout, quota=quota, shapes=shapes)
            yield (layout.of_shape(shapes[0]) if in_blocks else layout), lanes

    @cached_property
    def shared(self) -> SharedDocuments:
        """How ranks of cp share the documents of micro-batches in blocks."""
        return SharedDocuments(self.workload)

    def shapes_of(self, replica: int) -> tuple[RowShape, ...]:
        """What the micro-batches of a replica hold, step by step."""
        model, plan = self.workload.model, self.workload.plan
        if self.dealt is None:
            return tuple(drawn_shape(self.workload, replica, n) for n in self.layout.drawn_as())
        return tuple(shape_of(b, plan, model) for step in self.dealt.of[replica] for b in step)

    def _classes(self, layout: WorkloadLayout, lanes: list[int]) -> Iterator[RankClass]:
        plan = self.workload.plan
        some = len(lanes) not in (0, plan.dp * plan.cp)
        replica, place = divmod(lanes[0] if lanes else 0, plan.cp)
        lane = f" replica {replica}" + (f" cp {place}" if plan.context == "blocks" else "")
        for stage in range(self.workload.plan.pp):
            program = stage_program(layout, stage)
            for variant in variants(layout, stage, lanes):
                name = variant.name + (lane if some else "")
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
    peers = tuple(r for r in used if r.startswith(("pp:", "cp_", "rank:", *EXCHANGES)))
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
                        "(quotas), or reduce gradients once per step (data ddp or zero1, or sync step)"
                    )
