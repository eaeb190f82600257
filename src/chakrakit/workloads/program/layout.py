"""Layout: which blocks each stage runs, in which order, and what its ranks share.

It turns a checked workload into what `program.py` needs: the pipeline's schedule, the pieces of the
model, and blocks with their parameters gathered where the plan shards them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from chakrakit.workloads.description import (
    UPDATE,
    Mesh,
    PipelineSchedule,
    Workload,
    even_split,
    schedule_named,
    schedule_of,
)
from chakrakit.workloads.layers import (
    Block,
    GatherUnit,
    Stack,
    Tensor,
    Weight,
    elements,
    scattered,
    sharded,
    stack_of,
)
from chakrakit.workloads.program.shapes import RowShape, shaped_stack
from chakrakit.workloads.program.tables import TextTables
from chakrakit.workloads.program.task_templates import BlockTables, Chunk, Link, Template
from chakrakit.workloads.program.turns import one_ahead


class PlacedBlock(NamedTuple):
    """A block of the model: its name among the stack's, and the number of its layer or -1."""

    block: str
    layer: int


class HeldWeight(NamedTuple):
    """A weight a stage holds: where it is, and the row of its gradient by chunk and block."""

    chunk: int
    block: int
    weight: Weight


@dataclass
class WorkloadLayout:
    """Everything that follows from a workload before any node is made."""

    workload: Workload
    book: TextTables = field(default_factory=TextTables)
    tables: dict[tuple[object, ...], BlockTables] = field(default_factory=dict)
    counts: dict[Tensor, int] = field(default_factory=dict)
    first_rank: int = 0
    """The lowest rank, for workloads of several meshes."""
    headless: bool = False
    """Whether what comes after the layers, head and loss, is left out."""
    quota: int | None = None
    """Micro-batches of a step, where they do not follow from the batch."""
    steps: int = 1
    first_step: int = 0
    """Where it is one step of a longer series: which."""
    shapes: tuple[RowShape, ...] = ()
    """What each micro-batch of all steps holds, where it is not the step's sequences."""
    shape: RowShape | None = None
    """What the micro-batches hold of which this has the blocks."""
    shaped: dict[tuple[int, RowShape], dict[tuple[str, int], Template]] = field(
        default_factory=dict
    )
    """By stage and shape, the tasks' rows; layouts of one workload share them."""

    def of_shape(self, shape: RowShape) -> WorkloadLayout:
        """The same for micro-batches of another shape: the same rows of other sizes."""
        return replace(self, tables={}, counts={}, shape=shape)

    def drawn_as(self) -> range:
        """For each micro-batch of all steps, the number that seeds what is drawn for it."""
        first = self.first_step * self.micro_batches
        return range(first, first + self.micro_batches * self.steps)

    @cached_property
    def stack(self) -> Stack:
        """The model's blocks under the plan."""
        w = self.workload
        if self.shape is not None:
            return shaped_stack(w, self.shape)
        return stack_of(w.model, w.plan, w.step)

    @cached_property
    def micro_batches(self) -> int:
        """Micro-batches each data-parallel rank runs in a step."""
        step, plan = self.workload.step, self.workload.plan
        return (
            self.quota
            if self.quota is not None
            else step.global_batch // (plan.dp * step.micro_batch)
        )

    @cached_property
    def schedule(self) -> PipelineSchedule:
        """The order of tasks, of all steps."""
        plan, batches = self.workload.plan, self.micro_batches
        if plan.tasks and any(UPDATE in stage for stage in plan.tasks):
            return schedule_of(plan.tasks, batches * self.steps)
        if plan.tasks:
            return schedule_of(plan.tasks, batches).repeated(self.steps, batches)
        named = schedule_named(plan.schedule, plan.pp, batches, plan.chunks)
        if self.takes_turns:
            named = one_ahead(named)
        if self.workload.step.kind == "forward":
            named = named.forward_only()
        return named.repeated(self.steps, batches)

    @property
    def takes_turns(self) -> bool:
        """Whether a forward and a backward compute while the other's tokens travel."""
        return self.workload.plan.exchange_overlap and self.workload.step.kind == "train"

    @cached_property
    def mesh(self) -> Mesh:
        """The ranks."""
        last = self.schedule.piece_count - 1
        ends = (self.schedule.home(0, 0)[0], self.schedule.home(last, 0)[0])
        return Mesh(self.workload.plan, first=self.first_rank, ends=ends)

    @cached_property
    def has_copies(self) -> bool:
        """Whether several stages hold the same piece."""
        pieces = [p for stage in self.schedule.pieces for p in stage]
        return len(set(pieces)) < len(pieces)

    @cached_property
    def pieces(self) -> list[list[PlacedBlock]]:
        """The blocks of each piece of the model."""
        rows = [PlacedBlock(name, i) for i, name in enumerate(self.stack.rows)]
        split = self.workload.plan.split or even_split(len(rows), self.schedule.piece_count)
        bounds = [sum(split[:i]) for i in range(len(split) + 1)]
        pieces = [rows[a:b] for a, b in itertools.pairwise(bounds)]
        pieces[0] = [PlacedBlock(n, -1) for n in self.stack.first] + pieces[0]
        pieces[-1] = pieces[-1] + [PlacedBlock(n, -1) for n in self.last]
        return pieces

    @property
    def last(self) -> list[str]:
        """The blocks after the layers."""
        return [] if self.headless else self.stack.last

    def chunks(self, stage: int) -> list[Chunk]:
        """The chunks of a stage, with their links to the chunks before and after."""
        return [self._chunk(stage, c, p) for c, p in enumerate(self.schedule.pieces[stage])]

    def _chunk(self, stage: int, chunk: int, piece: int) -> Chunk:
        parts = self.pieces[piece]
        tables = [self._table(parts, i) for i in range(len(parts))]
        return Chunk(
            tables,
            [p.layer for p in parts],
            self._link(stage, chunk, piece, -1),
            self._link(stage, chunk, piece, +1),
            self.workload.plan.prefetch,
            self.book,
        )

    def _link(self, stage: int, chunk: int, piece: int, step: int) -> Link | None:
        """The link of a chunk to the piece before (-1) or after (+1) it."""
        neighbour = piece + step
        if not 0 <= neighbour < len(self.pieces):
            return None
        mine = (c.micro_batch for c in self.schedule.tasks[stage] if c.chunk == chunk)
        peer, _ = self.schedule.home(neighbour, next(mine, 0))
        after = self.pieces[piece if step < 0 else neighbour]
        size = self.stack.block(after[0].block).input_bytes
        return Link(None if peer == stage else peer, size)

    def _table(self, parts: list[PlacedBlock], index: int) -> BlockTables:
        units = tuple(self.units(parts, index))
        key = (parts[index].block, units)
        if key not in self.tables:
            shard = sharded if self.shards else scattered
            block = shard(self.stack.block(parts[index].block), units)
            self.tables[key] = BlockTables.of(block, self.book)
        return self.tables[key]

    # --- sharded parameters ---------------------------------------------------------------------

    @property
    def shards(self) -> bool:
        """Whether parameters themselves are sharded."""
        return self.workload.plan.data == "fsdp" and self.workload.step.kind == "train"

    def sync_role(self, expert: bool) -> str:
        """The group that shards, or reduces, a weight."""
        plan = self.workload.plan
        if expert:
            return "copy_edp" if self.has_copies else "edp"
        if self.has_copies:
            return "copy"
        return "shard" if plan.shard and plan.data != "ddp" else "dp"

    def units(self, parts: list[PlacedBlock], index: int) -> list[GatherUnit]:
        """What FSDP gathers before block `index` of a chunk, or what ZeRO-2 scatters after it."""
        if not (self.shards or self.scatters):
            return []
        part, block = parts[index], self.stack.block(parts[index].block)
        if self.shards and self.workload.plan.units == "root":
            return self._with_root(parts, index, block)
        return self._own_units(block, part.block in self.last)

    def _own_units(self, block: Block, last: bool) -> list[GatherUnit]:
        plan = self.workload.plan
        reshard = plan.reshard == "always" or (plan.reshard == "default" and not last)
        units = []
        for expert in (False, True):
            count = self.unsharded_elements([w for w in block.weights if w.expert == expert])
            if count and self.mesh.degree(self.sync_role(expert)) > 1:
                units.append(self._unit(count, expert, reshard))
        return units

    def _with_root(self, parts: list[PlacedBlock], index: int, block: Block) -> list[GatherUnit]:
        """Layers are units; all else of a chunk is gathered with its first block and stays."""
        layer_units = self._own_units(block, False) if parts[index].layer >= 0 else []
        rest = [w for p in parts if p.layer < 0 for w in self.stack.block(p.block).weights]
        if index == 0 and rest and self.mesh.degree(self.sync_role(False)) > 1:
            return [self._unit(self.unsharded_elements(rest), False, False), *layer_units]
        return layer_units

    def unsharded_elements(self, weights: list[Weight]) -> int:
        """Elements of weights before data parallelism; a tied table counts once on a rank."""
        return sum(self._elements(w) for w in weights if not (w.tied and self.tie_is_local))

    def weight_bytes(self, weights: list[Weight]) -> int:
        """Bytes of weights as inference keeps them; a tied table counts once on a rank."""
        degrees = self.stack.settings.degrees
        return sum(w.bytes(degrees) for w in weights if not (w.tied and self.tie_is_local))

    def _elements(self, weight: Weight) -> int:
        """Asked for again and again by buckets, units and optimizer; a tensor is its own key."""
        count = self.counts.get(weight.tensor)
        if count is None:
            count = self.counts[weight.tensor] = elements([weight], self.stack.settings.degrees)
        return count

    @property
    def tie_is_local(self) -> bool:
        """Whether embedding and head are on the same rank, so that a tied table is there once."""
        return self.mesh.ends[0] == self.mesh.ends[1]

    def _unit(self, count: int, expert: bool, reshard: bool) -> GatherUnit:
        step, role = self.workload.step, self.sync_role(expert)
        return GatherUnit(
            elements=count,
            role=role,
            ranks=self.mesh.degree(role),
            param_dtype=step.dtype,
            grad_dtype=step.grad_dtype or "fp32",
            reshard=reshard,
            scatter=self.sync_each,
            expert=expert,
            in_pipeline=self.workload.plan.pp > 1,
        )

    @property
    def sync_each(self) -> bool:
        """Whether gradients are reduced after every micro-batch.

        ZeRO-2, which keeps a part of them alone, cannot add them up before they are reduced; one
        micro-batch it reduces in buckets.
        """
        plan = self.workload.plan
        if plan.data == "zero2":
            return plan.sync != "step" and self.micro_batches > 1
        return plan.sync == "micro_batch" or (plan.sync == "auto" and plan.data == "fsdp")

    @property
    def scatters(self) -> bool:
        """Whether blocks reduce gradients without gathering parameters."""
        plan, step = self.workload.plan, self.workload.step
        return plan.data == "zero2" and step.kind == "train" and self.sync_each

    @property
    def keeps_whole_gradients(self) -> bool:
        """Whether gradients add up on every rank until they are reduced once."""
        sharded = self.workload.plan.data in ("zero2", "fsdp")
        return not sharded or (not self.sync_each and self.micro_batches > 1)
