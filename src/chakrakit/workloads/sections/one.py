"""One section by itself: its programs, with the micro-batches that its replicas were dealt."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from chakrakit.workloads.description import Decoder, PipelineTask, SectionGraph
from chakrakit.workloads.generate import Generated, RankClass
from chakrakit.workloads.layers import Dim, ShardHolder, Tensor, token_axes
from chakrakit.workloads.program import RowShape, TextTables, WorkloadLayout, shape_of
from chakrakit.workloads.samples import Deal
from chakrakit.workloads.sections.dealing import SectionDeal
from chakrakit.workloads.sections.feasible import feeds, workload_of_section


class OneSection(Generated):
    """The programs of a section on ranks from `first` on."""

    def __init__(
        self, graph: SectionGraph, name: str, dealt: SectionDeal, book: TextTables, first: int
    ) -> None:
        self.name, self.section, self.samples = name, graph.sections[name], dealt
        self.workload = workload_of_section(graph, name)
        self.feeds = feeds(graph, name)
        headless = self.feeds and self.section.output == "hidden"
        self.layout = WorkloadLayout(self.workload, book=book, first_rank=first, headless=headless)

    @cached_property
    def dealt(self) -> Deal | None:
        """The section's own micro-batches."""
        return self.samples.as_deal

    def shapes_of(self, replica: int) -> tuple[RowShape, ...]:
        """What the micro-batches of a replica hold; of a vision model, images."""
        model, plan = self.workload.model, self.workload.plan
        batches = self.samples.of[replica]
        if isinstance(model, Decoder):
            return tuple(shape_of(b, plan, model) for b in batches)
        length = getattr(model, "frames", 1)
        return tuple(RowShape(b.own, length, (), round(b.cost, 6)) for b in batches)

    @cached_property
    def class_of(self) -> dict[int, RankClass]:
        """The class of each rank, by its number among all ranks."""
        return {int(r) + self.mesh.first: c for c in self.classes for r in c.ranks}

    def replica_of(self, rank: int) -> int:
        """The data-parallel replica of a rank."""
        return int(self.mesh.coordinates["dp"][rank - self.mesh.first])

    def tokens_of(self, sample: int) -> int:
        """Tokens that a sample has in the section."""
        length = self.samples.lengths[sample]
        model = self.workload.model
        return length if isinstance(model, Decoder) else length * int(getattr(model, "tokens", 1))

    # --- what it hands on and takes ------------------------------------------------------------------

    def result(self, tokens: int) -> Tensor:
        """The tensor that it hands on for so many tokens, and how it is cut."""
        return self._cut(tokens, self.width, self.section.output == "logits")

    def taken(self, tokens: int, width: int, logits: bool) -> Tensor:
        """How it wants such a tensor of another section cut: as its own input, or as its own logits."""
        return self._cut(tokens, width, logits)

    def _cut(self, tokens: int, width: int, logits: bool) -> Tensor:
        plan = self.workload.plan
        if logits:
            axes = ("tp",) if plan.vocab_parallel else ()
            dims = (Dim(tokens, ("cp",)), Dim(width, axes))
        else:
            dims = (Dim(tokens, token_axes(plan)), Dim(width))
        return Tensor(dims, self.workload.step.dtype)

    @property
    def width(self) -> int:
        """Of what it hands on: hidden states, or logits."""
        model = self.workload.model
        if self.section.output == "logits" and isinstance(model, Decoder):
            return model.vocab
        return int(getattr(model, "hidden", 0) or getattr(model, "width", 1))

    @property
    def degrees(self) -> dict[str, int]:
        """Sizes of the axes that cut tensors."""
        return {"cp": self.workload.plan.cp, "tp": self.workload.plan.tp}

    def home(self, replica: int, batch: int, last: bool) -> tuple[int, int]:
        """Stage and chunk that run the first or the last piece of the model for a micro-batch."""
        schedule = self._layout_of(replica).schedule
        return schedule.home(schedule.piece_count - 1 if last else 0, batch)

    def _layout_of(self, replica: int) -> WorkloadLayout:
        at = np.flatnonzero(self.mesh.coordinates["dp"] == replica)[0]
        return self.class_of[int(at) + self.mesh.first].layout

    def holders(self, replica: int, stage: int) -> list[ShardHolder]:
        """The ranks of a stage of a replica."""
        c = self.mesh.coordinates
        ranks = np.flatnonzero((c["dp"] == replica) & (c["pp"] == stage)).tolist()
        return [
            ShardHolder(r + self.mesh.first, {"cp": int(c["cp"][r]), "tp": int(c["tp"][r])})
            for r in ranks
        ]

    def task(self, rank: int, kind: str, batch: int, chunk: int) -> PipelineTask:
        """The task of a rank that goes forward or back with a micro-batch."""
        tasks = self.class_of[rank].program.tasks
        known = PipelineTask(kind, batch, chunk)
        return known if known in tasks else PipelineTask("I", batch, chunk)
