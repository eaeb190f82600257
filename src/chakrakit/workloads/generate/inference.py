"""Inference: iterations of a serving engine through the stages of a pipeline, with a cache of keys.

Every iteration has its own number of tokens, so its tasks are built anew; a stage's program is the
iterations one after another. Sampled tokens go from the last stage to the first, where the next
iteration of the same requests waits for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from chakrakit.arrays import I64
from chakrakit.workloads.description import Decoder, Mesh, Plan, Step, Workload, gpipe
from chakrakit.workloads.generate.requests import Iteration, RequestPiece, iterations
from chakrakit.workloads.layers import BlockNode, Core, Kept, Stretch, Tokens, caches_of, stack_of
from chakrakit.workloads.program import (
    COLUMNS,
    HeldWeight,
    StageProgram,
    Template,
    TextTables,
    TiledColumns,
    WorkloadLayout,
    ordered_program,
    table_of,
)

TOKEN_BYTES = 4
"""A sampled token's number."""


def touched_experts(model: Decoder, tokens: int) -> float:
    """Returns the expected share of experts that at least one of `tokens` evenly routed tokens uses."""
    return 1 - (1 - model.top_k / model.experts) ** tokens if model.experts else 1.0


@dataclass(frozen=True)
class CacheMessage:
    """A message of a stage outside its pipeline: op, peer's role, bytes, tag, and what it belongs to."""

    op: str
    role: str
    size: int
    tag: int
    iteration: int


@dataclass
class ReplicaIterations:
    """One replica's iterations on a mesh."""

    workload: Workload
    plan: Plan
    mesh: Mesh
    passes: list[Iteration]
    book: TextTables
    chains: int = 1
    """Groups of requests whose iterations take turns; each waits only for its own."""

    @cached_property
    def layouts(self) -> list[WorkloadLayout]:
        """One layout per iteration, each with its own blocks."""
        return [self._layout(i) for i in self.passes]

    def _layout(self, iteration: Iteration) -> WorkloadLayout:
        model, step = self.workload.model, self.workload.step
        assert isinstance(model, Decoder)
        workload = self.workload.replace(plan=self.plan.replace(schedule="gpipe", chunks=1))
        layout = WorkloadLayout(workload, self.book)
        layout.schedule = gpipe(self.plan.pp, 1)
        stretches = tuple(Stretch(p.new, p.cached) for p in iteration.pieces)
        core = Core(iteration.pairs, model.kernel, stretches=stretches)
        tokens = Tokens(1, iteration.tokens, core, ("cp",), iteration.sampled, step.dispatch_dtype)
        meets = touched_experts(model, iteration.tokens * self.plan.ep)
        layout.stack = stack_of(model, workload.plan, step, tokens, meets)
        layout.mesh = self.mesh
        return layout

    def program(self, stage: int, messages: Sequence[CacheMessage] = ()) -> StageProgram:
        """A stage's iterations one after another."""
        build = _Joined(self, stage, messages)
        for number in range(len(self.passes)):
            build.add(number)
        columns = TiledColumns({}, np.zeros(0, np.int64), build.columns())
        return ordered_program(
            self.layouts[0], stage, columns, build.data(), build.tags(), build.held_weights()
        )

    @cached_property
    def caches(self) -> list[Kept]:
        """What each layer keeps on one rank."""
        model = self.workload.model
        assert isinstance(model, Decoder)
        return caches_of(model, self.plan.tp, self.workload.step)

    def ended(self, number: int) -> list[RequestPiece]:
        """The pieces of an iteration whose requests end with it."""
        later = {p.request for iteration in self.passes[number + 1 :] for p in iteration.pieces}
        return [p for p in self.passes[number].pieces if p.request not in later]

    def cached_at_start(self, layers: Iterable[int]) -> int:
        """Bytes that these layers hold before the first iteration."""
        first: dict[int, int] = {}
        for iteration in self.passes:
            for p in iteration.pieces:
                first.setdefault(p.request, p.cached)
        return sum(self.held(layer, n) for layer in layers for n in first.values())

    def held(self, layer: int, tokens: int) -> int:
        """Bytes that a layer holds for a request of so many tokens; none before its first."""
        return round(self.caches[layer].bytes(tokens)) if tokens else 0


@dataclass
class _Joined:
    """Tasks of one stage put one after another."""

    serving: ReplicaIterations
    stage: int
    messages: Sequence[CacheMessage]
    parts: list[dict[str, I64]] = field(default_factory=list)
    pairs: list[I64] = field(default_factory=list)
    tag_parts: list[I64] = field(default_factory=list)
    size: int = 0
    ends: list[int] = field(default_factory=list)

    def add(self, number: int) -> None:
        """Appends an iteration: what comes from outside, the chunk, what goes outside."""
        layout = self.serving.layouts[number]
        before = [
            self._message(m) for m in self.messages if m.iteration == number and m.op == "recv"
        ]
        fed = self._feedback(number, "recv")
        template = layout.chunks(self.stage)[0].forward()
        self._account(template, number)
        start = self._append(template.columns, self._pipeline_tags(template, number), number)
        self.pairs.append(template.edges[0] + start)
        self._wait_for(template, start, [*before, *fed, *self._own_token(number)])
        self.ends.append(start + template.end)
        self._feedback(number, "send")
        for m in self.messages:
            if m.iteration == number and m.op == "send":
                self._wait(self._message(m), [self.ends[-1]])

    def _account(self, template: Template, number: int) -> None:
        """Attention holds the keys of new tokens; the last row frees those of requests that end here.

        What a layer holds is told by the first row of its attention.
        """
        serving, columns = self.serving, template.columns
        pieces, ended = serving.passes[number].pieces, serving.ended(number)
        layers, rows = np.unique(columns["layer"][columns["core"] > 0], return_index=True)
        rows = np.flatnonzero(columns["core"] > 0)[rows]
        columns["alloc"] = np.zeros(len(template), np.int64)
        columns["free"] = np.zeros(len(template), np.int64)
        for layer, row in zip(layers.tolist(), rows.tolist(), strict=True):
            grown = [serving.held(layer, p.cached + p.new) for p in pieces]
            before = [serving.held(layer, p.cached) for p in pieces]
            columns["alloc"][row] = sum(grown) - sum(before)
            columns["free"][-1] += sum(serving.held(layer, p.cached + p.new) for p in ended)

    def _append(self, columns: dict[str, I64], tags: I64, number: int) -> int:
        start, rows = self.size, len(columns["op"])
        rows_columns = {c: columns[c] for c in COLUMNS}
        rows_columns["micro_batch"] = np.full(rows, number)
        rows_columns["chunk"], rows_columns["task"] = (
            np.zeros(rows, np.int64),
            np.full(rows, number),
        )
        self.parts.append(rows_columns)
        self.tag_parts.append(tags)
        self.size += rows
        return start

    def _pipeline_tags(self, template: Template, number: int) -> I64:
        """Between stages: the iteration and the boundary, numbered by the stage after it."""
        sends = template.columns["op"] == self.serving.book.ops.number("send")
        tags: I64 = (number * (self.serving.plan.pp + 1) + self.stage + sends) * 2
        return tags

    def _single(self, node: BlockNode, tag: int, number: int) -> int:
        table = table_of([node], self.serving.book, "forward")
        return self._append(table.columns, np.array([tag]), number)

    def _message(self, m: CacheMessage) -> int:
        node = BlockNode(f"cache.{m.op}", m.op, comm_size=m.size, out_size=m.size, role=m.role)
        return self._single(node, m.tag, m.iteration)

    def _feedback(self, number: int, op: str) -> list[int]:
        """Sampled tokens from the last stage to the first, for the next iteration of the chain."""
        stages, chains = self.serving.plan.pp, self.serving.chains
        source = number if op == "send" else number - chains
        takes_part = self.stage == (stages - 1 if op == "send" else 0)
        if stages == 1 or not takes_part or not 0 <= source < len(self.serving.passes) - chains:
            return []
        size = self.serving.passes[source].sampled * TOKEN_BYTES
        if not size or self.serving.workload.step.kind == "prefill":
            return []
        peer = f"pp:{0 if op == 'send' else stages - 1}"
        node = BlockNode(f"sampled.{op}", op, comm_size=size, out_size=size, role=peer)
        row = self._single(node, (source * (stages + 1) + stages) * 2 + 1, number)
        if op == "send":
            self._wait(row, [self.ends[-1]])
        return [row]

    def _own_token(self, number: int) -> list[int]:
        """With one stage, the next iteration waits for the last one's head itself."""
        alone = self.serving.plan.pp == 1 and self.serving.workload.step.kind != "prefill"
        before = number - self.serving.chains
        return [self.ends[before]] if alone and before >= 0 else []

    def _wait_for(self, template: Template, start: int, rows: list[int]) -> None:
        """The task's first rows wait for rows outside."""
        targets = set(range(len(template))) - set(template.edges[0][:, 1].tolist())
        for target in sorted(targets):
            self._wait(start + target, rows)

    def _wait(self, row: int, rows: list[int]) -> None:
        if rows:
            self.pairs.append(np.array([(r, row) for r in rows], np.int64))

    def columns(self) -> dict[str, I64]:
        """All rows."""
        return {c: np.concatenate([p[c] for p in self.parts]) for c in self.parts[0]}

    def data(self) -> I64:
        """All edges."""
        return np.concatenate(self.pairs)

    def tags(self) -> I64:
        """All tags."""
        return np.concatenate(self.tag_parts)

    def held_weights(self) -> list[HeldWeight]:
        """Weights, from the first iteration's blocks."""
        chunk = self.serving.layouts[0].chunks(self.stage)[0]
        return [
            HeldWeight(0, b, w)
            for b, tables in enumerate(chunk.blocks)
            for w in tables.block.weights
        ]


def servings(
    workload: Workload, plan: Plan, mesh: Mesh, book: TextTables
) -> Iterator[tuple[ReplicaIterations, I64]]:
    """What each group of like replicas runs, and their data coordinates."""
    step = workload.step
    count = -(-step.global_batch // plan.dp)
    alike = step.lengths.distribution == "fixed" or plan.ep > 1
    for replica in [0] if alike else range(plan.dp):
        passes, chains = _chained(iterations(step, replica, count), step, plan)
        data = np.arange(plan.dp) if alike else np.array([replica])
        yield ReplicaIterations(workload, plan, mesh, passes, book, chains), data


def _chained(passes: list[Iteration], step: Step, plan: Plan) -> tuple[list[Iteration], int]:
    """Decode cut into a group of requests per stage, so that stages work on different groups."""
    groups = min(plan.pp, len(passes[0].pieces)) if step.kind == "decode" else 1
    if groups == 1:
        return passes, 1
    cut = [Iteration(iteration.pieces[g::groups]) for iteration in passes for g in range(groups)]
    return cut, groups
